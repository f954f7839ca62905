// Package openpbs holds the scripts of a real OpenPBS on this machine, and the tests of hookhost
// under it. The tests have the build tag openpbs: `make test-openpbs` runs them.
package openpbs
