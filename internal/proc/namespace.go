package proc

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Translate returns the number in procfs of the process that caller calls pid. Caller is a process
// by its number in procfs. In a pid namespace below that of procfs, caller has other numbers for
// processes. Only its own can be told, from its status. Translate fails with ErrGone when caller is
// gone, is outside of procfs (0, as SO_PEERCRED has it), or means another process of such a
// namespace.
func Translate(procfs *kernfs.FS, caller, pid int) (int, error) {
	if caller <= 0 {
		return 0, fmt.Errorf("process %d of a pid namespace that cannot be seen from here: %w", pid, ErrGone)
	}
	dir := strconv.Itoa(caller)
	b, err := procfs.ReadFile(dir + "/status")
	if err != nil {
		return 0, gone("read process "+dir, err)
	}
	// Its numbers from the namespace of procfs to its own. Before Linux 4.1 there is no such line.
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
