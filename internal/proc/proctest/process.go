// Package proctest has processes for tests of jobs.
package proctest

import (
	"bufio"
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
)

// Process is a process that a test talks to.
type Process struct {
	*proc.Child
	In  *os.File
	Out *bufio.Reader
}

// Start starts a process in a job's cgroup, with pipes as its standard input and output. The path
// of spec is this test program where it has none. The end of the test ends the process.
func Start(t testing.TB, spec proc.Spec, join hostapi.Join) *Process {
	t.Helper()
	inR, inW, err := os.Pipe()
	must.NoError(t, err)
	outR, outW, err := os.Pipe()
	must.NoError(t, err)
	if spec.Path == "" {
		spec.Path = "/proc/self/exe"
		// The runtime's own use of cpu and memory is small like this, beside what tests measure.
		spec.Env = append([]string{"GOMAXPROCS=1", "GOGC=off"}, spec.Env...)
	}
	spec.Stdin, spec.Stdout, spec.Stderr = inR, outW, os.Stderr
	child, err := proc.Start(&spec, join)
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.Signal(unix.SIGKILL); err != nil && !errors.Is(err, proc.ErrGone) {
			t.Error(err)
		}
		if _, err := child.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		inW.Close()
		outR.Close()
	})
	return &Process{Child: child, In: inW, Out: bufio.NewReader(outR)}
}
