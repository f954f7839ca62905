// Package must has the steps that tests of all packages take.
package must

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	// longest is how long a test waits for what comes by itself. An emulated or loaded machine is
	// slow.
	longest = 2 * time.Minute
	pause   = 5 * time.Millisecond
)

// NoError ends the test at the first of the errors. NoError is for the steps of a test: an error
// that the test is about has a text of its own.
func NoError(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Equal ends the test where two values differ, and shows how.
func Equal(t testing.TB, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// Eventually waits for what another process does and nothing announces. The test ends where ok is
// false for two minutes.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(longest); !ok(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// Receive returns what comes out of a channel next, or the zero value of one that is closed. The
// test ends where neither comes within two minutes.
func Receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(longest):
		t.Fatalf("not in time: %s", what)
	}
	panic("a test that has ended goes on")
}

// BesideOthers has a test run beside others that wait more than they do. On an emulated machine it
// runs alone, since such a machine has no time to spare.
func BesideOthers(t *testing.T) {
	if _, err := os.Stat("/lab/.lab/command"); err != nil {
		t.Parallel()
	}
}
