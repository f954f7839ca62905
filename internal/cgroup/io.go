package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// ioController limits a job's use of block devices, on v2 only. io.max has a line for each device
// with a limit, "8:0 rbps=1048576 wbps=max riops=max wiops=120". Each write sets one device
// (cgroup-v2.rst, "IO Interface Files").
var ioController = controller{
	name:  "io",
	v2:    []knob{ioKnob},
	named: deviceKnobs,
	asked: func(l *Limits) bool { return len(l.IO) > 0 },
	check: func(_ *Job, l *Limits) error { return checkIO(l.IO) },
}

const (
	ioMax = "io.max"
	// blkioBytes is v1's counter. Newer kernels count a device there only after somebody has set a
	// limit for it (blk_throtl_init).
	blkioBytes = "blkio.throttle.io_service_bytes_recursive"
)

// readIO reads how many bytes the job has read from and written to block devices. If io.stat has no
// lines, that is none. If blkio, as v1 calls the controller, lists no device, it is unknown.
func (j *Job) readIO(r *reader, u *Usage) {
	file, parse := "io.stat", parseIOStat
	d, ok := j.with("io")
	if !ok {
		file, parse = blkioBytes, parseBlkio
		if d, ok = j.with("blkio"); !ok {
			return
		}
	}
	r.dir = d
	b, err := r.dir.ReadValue(file)
	if !r.note(err) {
		return
	}
	if u.ReadBytes, u.WriteBytes, err = parse(string(b)); err != nil {
		r.errs = append(r.errs, &kernfs.ParseError{File: r.dir.Path(file), Err: err})
	}
}

// parseIOStat parses lines such as "8:0 rbytes=4096 wbytes=0 rios=1".
func parseIOStat(text string) (read, written *int64, err error) {
	sum := map[string]uint64{}
	for line := range strings.Lines(text) {
		for _, word := range strings.Fields(line) {
			key, value, _ := strings.Cut(word, "=")
			if key != "rbytes" && key != "wbytes" {
				continue
			}
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return nil, nil, fmt.Errorf("line %q: %w", line, err)
			}
			sum[key] += n
		}
	}
	return ptr(sum["rbytes"]), ptr(sum["wbytes"]), nil
}

// parseBlkio parses lines such as "8:0 Read 4096". The last line, "Total 4096", has no device.
func parseBlkio(text string) (read, written *int64, err error) {
	sum := map[string]uint64{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		n, err := strconv.ParseUint(f[2], 10, 64)
		if err != nil {
			return nil, nil, fmt.Errorf("line %q: %w", line, err)
		}
		sum[f[1]] += n
	}
	return field(sum, "Read"), field(sum, "Write"), nil
}

// ioKnob reads io.max, while deviceKnobs write it.
var ioKnob = knob{file: ioMax, detail: true, set: func(l *Limits, text string) (err error) {
	l.IO, err = parseIO(text)
	return err
}}

// BlockDevice returns the numbers of the block device at name, which may be a symbolic link.
func BlockDevice(name string) (major, minor uint32, err error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, 0, fmt.Errorf("%s is no block device", name)
	}
	return unix.Major(st.Rdev), unix.Minor(st.Rdev), nil
}

// WholeDisk fails if the block device with these numbers is a partition, because io.max accepts
// only whole disks (blkg_conf_open_bdev). dev/block also leads to partitions, which have a file
// named partition (Documentation/ABI/stable/sysfs-block). A device that is missing in sysfs counts
// as a disk.
func WholeDisk(sys *kernfs.FS, major, minor uint32) error {
	number, err := sys.ReadFile(fmt.Sprintf("dev/block/%d:%d/partition", major, minor))
	switch {
	case err == nil && len(number) > 0:
		return fmt.Errorf("%d:%d is a partition; io.max takes whole disks", major, minor)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// deviceKnobs returns one knob for each device that any of the limits names.
func deviceKnobs(v2 bool, limits ...*Limits) []knob {
	if !v2 {
		return nil
	}
	type device struct{ major, minor uint32 }
	var devices []device
	for _, l := range limits {
		if l == nil {
			continue
		}
		for _, d := range l.IO {
			devices = append(devices, device{d.Major, d.Minor})
		}
	}
	slices.SortFunc(devices, func(a, b device) int {
		return cmp.Or(cmp.Compare(a.major, b.major), cmp.Compare(a.minor, b.minor))
	})
	var knobs []knob
	for _, d := range slices.Compact(devices) {
		knobs = append(knobs, knob{
			file: ioMax, format: asDevice, none: IOLimit{Major: d.major, Minor: d.minor}.String(),
			get: func(l *Limits) string {
				for _, limit := range l.IO {
					if limit.Major == d.major && limit.Minor == d.minor {
						return limit.String()
					}
				}
				return ""
			},
		})
	}
	return knobs
}

// String returns the limit in the format of io.max.
func (l IOLimit) String() string {
	text := fmt.Sprintf("%d:%d", l.Major, l.Minor)
	for _, v := range l.values() {
		text += " " + v.key + "="
		if *v.at == nil {
			text += "max"
		} else {
			text += strconv.FormatInt(**v.at, 10)
		}
	}
	return text
}

type ioValue struct {
	key string
	at  **int64
}

// values returns the values in the order in which the kernel shows them.
func (l *IOLimit) values() []ioValue {
	return []ioValue{{"rbps", &l.ReadBytes}, {"wbps", &l.WriteBytes}, {"riops", &l.ReadOps}, {"wiops", &l.WriteOps}}
}

// limits reports whether l limits anything.
func (l IOLimit) limits() bool {
	return l.ReadBytes != nil || l.WriteBytes != nil || l.ReadOps != nil || l.WriteOps != nil
}

func parseIO(text string) ([]IOLimit, error) {
	var list []IOLimit
	for line := range strings.Lines(text) {
		l, err := parseIOLine(strings.TrimSpace(line))
		if err != nil {
			return nil, err
		}
		if l.limits() {
			list = append(list, l)
		}
	}
	return list, nil
}

func parseIOLine(line string) (l IOLimit, err error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return l, fmt.Errorf("%q: no device", line)
	}
	major, minor, _ := strings.Cut(words[0], ":")
	ma, err := strconv.ParseUint(major, 10, 32)
	mi, merr := strconv.ParseUint(minor, 10, 32)
	if err := cmp.Or(err, merr); err != nil {
		return l, err
	}
	l.Major, l.Minor = uint32(ma), uint32(mi)
	values := l.values()
	for _, word := range words[1:] {
		key, text, _ := strings.Cut(word, "=")
		i := slices.IndexFunc(values, func(v ioValue) bool { return v.key == key })
		if i < 0 || text == "max" {
			continue // new kernels may add keys
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return l, err
		}
		*values[i].at = &n
	}
	return l, nil
}

// holdsDevice reports whether got, the contents of io.max, has the limits that want sets for one
// device. A device without limits is not listed in io.max.
func holdsDevice(want, got string) bool {
	w, err := parseIOLine(want)
	list, gerr := parseIO(got)
	if err != nil || gerr != nil {
		return false
	}
	for _, g := range list {
		if g.Major == w.Major && g.Minor == w.Minor {
			return g.String() == w.String()
		}
	}
	return !w.limits()
}

// checkIO rejects limits of 0 or less and duplicate devices.
func checkIO(limits []IOLimit) error {
	for i := range limits {
		l := &limits[i]
		for _, v := range l.values() {
			if *v.at != nil && **v.at <= 0 { // the kernel does not accept 0 (blkg_conf, tg_set_limit)
				return fmt.Errorf("%s of device %d:%d is %d, want more than 0", v.key, l.Major, l.Minor, **v.at)
			}
		}
		for _, other := range limits[:i] {
			if other.Major == l.Major && other.Minor == l.Minor {
				return fmt.Errorf("two limits of device %d:%d", l.Major, l.Minor)
			}
		}
	}
	return nil
}
