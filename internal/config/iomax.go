package config

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/pbs"
)

// IO configures the io controller.
type IO struct {
	Enabled bool     `toml:"enabled" json:"enabled"`
	Max     []string `toml:"max" json:"max"`
}

// IOMax is an entry of [io] max: limits on a job's use of a block device. nil: no limit.
type IOMax struct {
	Path         string // of the device; "" if the entry has its numbers
	Major, Minor uint32
	// All four are per second.
	ReadBytes, WriteBytes, ReadOps, WriteOps *int64
}

// ParseIOMax parses "/dev/sda rbps=500mb wbps=200mb riops=20000 wiops=10000" or the same with 8:0
// instead of the path. It fails without a limit, and for a limit of 0. It does not check whether
// the device exists.
func ParseIOMax(text string) (IOMax, error) {
	m, err := parseIOMax(text)
	if err != nil {
		return IOMax{}, fmt.Errorf("%q: %w", text, err)
	}
	return m, nil
}

func parseIOMax(text string) (m IOMax, err error) {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return m, errors.New("want a device and its limits, such as 8:0 rbps=500mb")
	}
	if path.IsAbs(fields[0]) {
		m.Path = fields[0]
	} else if m.Major, m.Minor, err = parseDevice(fields[0]); err != nil {
		return m, err
	}
	for _, field := range fields[1:] {
		name, value, _ := strings.Cut(field, "=")
		limit, bytes := m.limit(name)
		if limit == nil {
			return m, fmt.Errorf("%s: want rbps, wbps, riops or wiops", field)
		}
		if *limit != nil {
			return m, fmt.Errorf("%s: given twice", name)
		}
		n, err := parseRate(value, bytes)
		if err != nil {
			return m, fmt.Errorf("%s: %w", name, err)
		}
		*limit = &n
	}
	return m, nil
}

// limit returns the limit with that name and whether it counts bytes.
func (m *IOMax) limit(name string) (limit **int64, bytes bool) {
	switch name {
	case "rbps":
		return &m.ReadBytes, true
	case "wbps":
		return &m.WriteBytes, true
	case "riops":
		return &m.ReadOps, false
	case "wiops":
		return &m.WriteOps, false
	}
	return nil, false
}

func parseRate(value string, bytes bool) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil && bytes {
		var size pbs.Size
		size, err = pbs.ParseSize(value)
		n = int64(size)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", value)
	}
	if n <= 0 || !bytes && n > 1<<32-1 { // the kernel stores operations as an unsigned int
		return 0, fmt.Errorf("%s is out of range", value)
	}
	return n, nil
}

func parseDevice(text string) (major, minor uint32, err error) {
	a, b, ok := strings.Cut(text, ":")
	ma, errA := strconv.ParseUint(a, 10, 12) // MINORBITS is 20 of the 32 bits of a dev_t
	mi, errB := strconv.ParseUint(b, 10, 20)
	if !ok || errA != nil || errB != nil {
		return 0, 0, fmt.Errorf("device %q: want a path, or numbers such as 8:0", text)
	}
	return uint32(ma), uint32(mi), nil
}
