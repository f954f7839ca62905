package proc

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Translate returns the pid in procfs of the process that caller calls pid. caller is a pid in
// procfs. In a pid namespace below that of procfs, caller sees other pids. Only its own pid can be
// translated, using its status. Translate fails with ErrGone in three cases. caller is gone, it is
// not visible in procfs (0, as in SO_PEERCRED), or it means another process in such a namespace.
func Translate(procfs *kernfs.FS, caller, pid int) (int, error) {
	if caller <= 0 {
		return 0, fmt.Errorf("process %d of a pid namespace that cannot be seen from here: %w", pid, ErrGone)
	}
	dir := strconv.Itoa(caller)
	b, err := procfs.ReadFile(dir + "/status")
	if err != nil {
		return 0, gone("read process "+dir, err)
	}
	// Its pids, from the namespace of procfs to its own. Before Linux 4.1 there is no such line.
	_, line, _ := bytes.Cut(b, []byte("\nNSpid:"))
	line, _, _ = bytes.Cut(line, []byte("\n"))
	numbers := bytes.Fields(line)
	switch {
	case len(numbers) <= 1:
		return pid, nil
	case string(numbers[len(numbers)-1]) == strconv.Itoa(pid):
		return caller, nil
	}
	return 0, fmt.Errorf("process %d of another pid namespace, the one that process %d is in: %w", pid, caller, ErrGone)
}
