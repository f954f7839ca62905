package main

import (
	"bytes"
	"strconv"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// forkCount decides whether a pid may have been reused. The kernel assigns pids in turn
// (alloc_pid). So no pid is reused until nearly as many processes and threads have been created as
// there are pids.
type forkCount struct{ turn uint64 }

// few reports whether too few processes have been created since the start of this turn for any pid
// to be reused. alive is the number of processes. A new turn begins when a pid may have been
// reused, or when the kernel does not provide the count.
func (c *forkCount) few(procfs *kernfs.FS, alive int) bool {
	now, ok := forksSoFar(procfs)
	most, err := procfs.Uint("sys/kernel/pid_max")
	if !ok || err != nil {
		*c = forkCount{}
		return false
	}
	// Only half of them, because pids below 300 are not reused and threads use some.
	if c.turn == 0 || now < c.turn || now-c.turn+uint64(alive) > most/2 {
		c.turn = max(now, 1)
		return false
	}
	return true
}

// forksSoFar returns how many processes and threads the kernel has created (proc_stat(5)).
func forksSoFar(procfs *kernfs.FS) (uint64, bool) {
	b, err := procfs.ReadFile("stat")
	if err != nil {
		return 0, false
	}
	_, rest, found := bytes.Cut(b, []byte("\nprocesses "))
	text, _, _ := bytes.Cut(rest, []byte{'\n'})
	n, err := strconv.ParseUint(string(text), 10, 64)
	return n, found && err == nil
}
