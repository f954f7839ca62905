package proc

import (
	"strconv"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Hold opens the process pid and reads it. procfs must be the one of our pid namespace. What was
// read belongs to that process, since it has not been reaped meanwhile and its pid was not reused.
// A zombie is held too: see Dead. Hold fails with ErrGone if there is no such process, if it
// disappears meanwhile, or if pid is a thread's. It fails with errors.ErrUnsupported if the kernel
// has no pidfds (Linux 5.3).
func Hold(procfs *kernfs.FS, pid int) (*Handle, Process, error) {
	h, err := OpenPID(pid)
	if err != nil {
		return nil, Process{}, err
	}
	dir := strconv.Itoa(pid)
	p, err := readFrom(procfs, filesOf(procfs, dir), dir)
	if err == nil {
		err = h.Signal(0)
	}
	if err != nil {
		h.Close()
		return nil, Process{}, err
	}
	return h, p, nil
}
