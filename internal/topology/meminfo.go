package topology

import (
	"errors"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// readTotals returns MemTotal and SwapTotal of a meminfo file in bytes. A NUMA node has no
// SwapTotal, nor has a kernel without swap support.
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
