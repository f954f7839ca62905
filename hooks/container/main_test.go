package main

import (
	"os"
	"testing"
)

// TestMain also is the program that a check starts: /proc/self/exe.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == checkCommand {
		os.Exit(checkAsOwner(os.Args[2:], os.Stderr))
	}
	os.Exit(m.Run())
}
