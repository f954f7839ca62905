// Package packages tests the packages of scripts/package in a guest of lab/vm, whose node they
// change: `make test-vm V=bookworm`.
package packages
