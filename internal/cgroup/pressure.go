package cgroup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// readPressure reads the totals of a v2 directory (accounting/psi.rst). They are missing before
// Linux 4.20, with psi=0 (where older kernels return EOPNOTSUPP), and on v1.
//
// procfs reads only the node's /proc/pressure (proc_psi.go:61).
func (r *reader) readPressure(u *Usage) {
	u.CPUSome, _ = r.pressure("cpu.pressure")
	u.MemorySome, u.MemoryFull = r.pressure("memory.pressure")
	u.IOSome, u.IOFull = r.pressure("io.pressure")
}

func (r *reader) pressure(file string) (some, full *time.Duration) {
	b, err := r.dir.ReadValue(file)
	if errors.Is(err, unix.EOPNOTSUPP) || !r.note(err) {
		return nil, nil
	}
	totals, err := parsePressure(string(b))
	if err != nil {
		r.errs = append(r.errs, &kernfs.ParseError{File: r.dir.Path(file), Err: err})
		return nil, nil
	}
	return duration(field(totals, "some"), time.Microsecond), duration(field(totals, "full"), time.Microsecond)
}

// parsePressure parses the total of each line, in microseconds: "some avg10=0.00 avg60=0.00
// avg300=0.00 total=12".
func parsePressure(text string) (map[string]uint64, error) {
	totals := map[string]uint64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		kind, rest, _ := strings.Cut(line, " ")
		_, total, ok := strings.Cut(rest, "total=")
		if !ok {
			return nil, fmt.Errorf("line %q: no total", line)
		}
		total, _, _ = strings.Cut(total, " ")
		n, err := strconv.ParseUint(total, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		totals[kind] = n
	}
	return totals, nil
}
