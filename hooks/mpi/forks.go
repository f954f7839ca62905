package main

import (
	"bytes"
	"strconv"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// forkCount reports whether a pid that was seen before may be another process's by now. The kernel
// gives numbers in turn (alloc_pid), so none is given twice before nearly as many processes and
// threads were made as there are numbers.
type forkCount struct{ turn uint64 }

// few reports whether too few processes have been made since the start of this turn for a pid to
// have come again. alive is the number of processes. A new turn begins when a pid may have come
// again, or the kernel does not say.
func (c *forkCount) few(procfs *kernfs.FS, alive int) bool {
	now, ok := forksSoFar(procfs)
	most, err := procfs.Uint("sys/kernel/pid_max")
	if !ok || err != nil {
		*c = forkCount{}
		return false
	}
	// Half of them: the numbers below 300 are not given again, and threads hold some.
	if c.turn == 0 || now < c.turn || now-c.turn+uint64(alive) > most/2 {
		c.turn = max(now, 1)
		return false
	}
	return true
}

// forksSoFar is how many processes and threads the kernel has made (proc_stat(5)).
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
