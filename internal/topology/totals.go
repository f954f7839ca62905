package topology

import (
	"errors"
	"io/fs"
	"math"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// readTotals returns MemTotal and SwapTotal of a meminfo file in bytes. A NUMA node has no
// SwapTotal. A kernel without swap support has none either.
func readTotals(dir *kernfs.FS, file string) (mem, swap int64, err error) {
	values, err := dir.Meminfo(file, "MemTotal", "SwapTotal")
	if err != nil {
		return 0, 0, err
	}
	mem, found := values["MemTotal"]
	if !found {
		return 0, 0, &kernfs.ParseError{File: dir.Path(file), Text: "MemTotal", Err: errors.New("no such line")}
	}
	return mem, values["SwapTotal"], nil
}

// readTotals reads the node's totals of memory, swap and tasks.
func (n *Node) readTotals(proc *kernfs.FS) (err error) {
	if n.MemTotal, n.SwapTotal, err = readTotals(proc, "meminfo"); err != nil {
		return err
	}
	n.Tasks = 0
	for _, file := range []string{"sys/kernel/pid_max", "sys/kernel/threads-max"} {
		most, err := proc.Uint(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if m := int64(min(most, math.MaxInt64)); n.Tasks == 0 || m < n.Tasks {
			n.Tasks = m
		}
	}
	return nil
}
