package cgroup

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// hugetlbController limits huge pages (cgroup-v1/hugetlb.rst; cgroup-v2.rst, "HugeTLB"). Each page
// size has a set of files. On v2 they are hugetlb.2MB.max and hugetlb.2MB.rsvd.max, on v1
// hugetlb.2MB.limit_in_bytes and hugetlb.2MB.rsvd.limit_in_bytes. The first counts pages in use,
// and a process that exceeds it gets SIGBUS. The second exists since Linux 5.7. It counts reserved
// pages and makes mmap fail, which a program can handle. Both are set to the same value.
var hugetlbController = controller{
	name:  "hugetlb",
	named: hugetlbKnobs,
	read:  directory.readHugetlb,
	asked: func(l *Limits) bool { return len(l.Hugetlb) > 0 },
	check: func(_ *Job, l *Limits) error {
		for size, n := range l.Hugetlb {
			if n < 0 || size <= 0 {
				return fmt.Errorf("%d bytes in huge pages of %d bytes", n, size)
			}
		}
		return nil
	},
	usage: func(r *reader, u *Usage) { u.HugetlbPeak = r.hugetlbPeak() },
}

// pageName returns the kernel's name of a page size in bytes (mem_fmt of mm/hugetlb_cgroup.c).
func pageName(size int64) string {
	for _, unit := range []struct {
		shift int
		name  string
	}{{30, "GB"}, {20, "MB"}} {
		if size >= 1<<unit.shift {
			return strconv.FormatInt(size>>unit.shift, 10) + unit.name
		}
	}
	return strconv.FormatInt(size>>10, 10) + "KB"
}

// parsePageName reverses pageName.
func parsePageName(name string) (size int64, ok bool) {
	for unit, shift := range map[string]int{"KB": 10, "MB": 20, "GB": 30} {
		if digits, found := strings.CutSuffix(name, unit); found {
			n, err := strconv.ParseInt(digits, 10, 32)
			return n << shift, err == nil && n > 0
		}
	}
	return 0, false
}

// hugetlbFiles are the parts of a page size's file names that differ between the versions.
type hugetlbFiles struct{ limit, use, none string }

var hugetlbNames = map[bool]hugetlbFiles{
	false: {limit: "limit_in_bytes", use: "usage_in_bytes", none: "-1"},
	true:  {limit: "max", use: "current", none: "max"},
}

// hugetlbKnobs returns the knobs of the page sizes that any of the limits names.
func hugetlbKnobs(v2 bool, limits ...*Limits) []knob {
	var knobs []knob
	for _, size := range sizesIn(limits...) {
		names, prefix := hugetlbNames[v2], "hugetlb."+pageName(size)+"."
		for _, kind := range []struct {
			prefix string
			has    bool // whether every kernel has it
		}{{prefix, true}, {prefix + "rsvd.", false}} {
			knobs = append(knobs, knob{
				file: kind.prefix + names.limit, use: kind.prefix + names.use,
				format: asSize, none: names.none, optional: !kind.has,
				get: func(l *Limits) string {
					n, ok := l.Hugetlb[size]
					if !ok {
						return ""
					}
					return strconv.FormatInt(n-n%size, 10) // the kernel rounds the same way (hugetlb_cgroup_write)
				},
			})
		}
	}
	return knobs
}

func sizesIn(limits ...*Limits) []int64 {
	sizes := map[int64]bool{}
	for _, l := range limits {
		if l == nil {
			continue
		}
		for size := range l.Hugetlb {
			sizes[size] = true
		}
	}
	return slices.Sorted(maps.Keys(sizes))
}

// pageSizes lists the page sizes for which d has files, smallest first.
func (d directory) pageSizes() ([]int64, error) {
	if sizes := d.h.pages.Load(); sizes != nil {
		return *sizes, nil
	}
	f, err := d.OpenFile(".", os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("read directory %s: %w", d.Path("."), err)
	}
	sizes := pageSizesIn(entries, hugetlbNames[d.h.v2].limit)
	d.h.pages.Store(&sizes) // they are fixed when the kernel boots
	return sizes, nil
}

func pageSizesIn(entries []fs.DirEntry, limit string) []int64 {
	sizes := []int64{}
	for _, e := range entries {
		name, found := strings.CutPrefix(e.Name(), "hugetlb.")
		if !found {
			continue
		}
		if name, found = strings.CutSuffix(name, "."+limit); !found {
			continue
		}
		if size, ok := parsePageName(name); ok {
			sizes = append(sizes, size)
		}
	}
	slices.Sort(sizes)
	return sizes
}

// readHugetlb reads the limits of all page sizes.
func (d directory) readHugetlb(l *Limits) error {
	sizes, err := d.pageSizes()
	if err != nil {
		return err
	}
	for _, size := range sizes {
		b, err := d.ReadFile("hugetlb." + pageName(size) + "." + hugetlbNames[d.h.v2].limit)
		if err != nil {
			return err
		}
		n, err := parseBytes(trim(b))
		if err != nil {
			return err
		}
		if n != nil {
			if l.Hugetlb == nil {
				l.Hugetlb = map[int64]int64{}
			}
			l.Hugetlb[size] = *n
		}
	}
	return nil
}

// hugetlbPeak returns the sum of the peaks of all page sizes on v1. v2 does not record peaks of
// huge pages.
func (r *reader) hugetlbPeak() *int64 {
	if r.dir.h.v2 {
		return nil
	}
	sizes, err := r.dir.pageSizes()
	if !r.note(err) {
		return nil
	}
	var sum int64
	for _, size := range sizes {
		n := r.number("hugetlb." + pageName(size) + ".max_usage_in_bytes")
		if n == nil {
			return nil
		}
		sum += *n
	}
	return &sum
}
