package topology

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// errNoKey is returned for a meminfo text without the line asked for.
var errNoKey = errors.New("no such line")

// readTotals returns MemTotal and SwapTotal of /proc/meminfo in bytes. A kernel without swap support has no SwapTotal.
func readTotals(proc *kernfs.FS) (mem, swap int64, err error) {
	const name = "meminfo"
	b, err := proc.ReadFile(name)
	if err != nil {
		return 0, 0, err
	}
	if mem, err = parseMeminfo(b, "MemTotal"); err != nil {
		return 0, 0, &kernfs.ParseError{File: proc.Path(name), Text: "MemTotal", Err: err}
	}
	if swap, err = parseMeminfo(b, "SwapTotal"); err != nil && !errors.Is(err, errNoKey) {
		return 0, 0, &kernfs.ParseError{File: proc.Path(name), Text: "SwapTotal", Err: err}
	}
	return mem, swap, nil
}

// readMemTotal returns MemTotal of a NUMA node's meminfo in bytes.
func readMemTotal(sys *kernfs.FS, name string) (int64, error) {
	b, err := sys.ReadFile(name)
	if err != nil {
		return 0, err
	}
	total, err := parseMeminfo(b, "MemTotal")
	if err != nil {
		return 0, &kernfs.ParseError{File: sys.Path(name), Text: "MemTotal", Err: err}
	}
	return total, nil
}

// parseMeminfo returns the value of key in bytes, from "MemTotal: 24684084 kB" (/proc/meminfo) or "Node 0 MemTotal:
// 4024524 kB" (a NUMA node's meminfo).
func parseMeminfo(text []byte, key string) (int64, error) {
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) > 2 && string(fields[0]) == "Node" {
			fields = fields[2:]
		}
		if len(fields) < 2 || string(fields[0]) != key+":" {
			continue
		}
		kb, err := strconv.ParseInt(string(fields[1]), 10, 64)
		if err != nil || kb < 0 || kb > math.MaxInt64/1024 || len(fields) != 3 || string(fields[2]) != "kB" {
			return 0, fmt.Errorf("line %q: not a number of kB", bytes.TrimSpace(line))
		}
		return kb * 1024, nil
	}
	return 0, fmt.Errorf("%s: %w", key, errNoKey)
}
