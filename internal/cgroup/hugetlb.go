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

// hugetlbController bounds huge pages (cgroup-v1/hugetlb.rst; cgroup-v2.rst, "HugeTLB"). Each page
// size has a set of files: hugetlb.2MB.max and hugetlb.2MB.rsvd.max on v2,
// hugetlb.2MB.limit_in_bytes and hugetlb.2MB.rsvd.limit_in_bytes on v1. The first counts pages in
// use, and a process beyond it gets SIGBUS. The second, since Linux 5.7, counts what is reserved
// and refuses the mmap, which a program can handle. Both are set to the same.
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

// pageName is how the kernel names a page size in bytes (mem_fmt of mm/hugetlb_cgroup.c).
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

// parsePageName is the reverse of pageName.
func parsePageName(name string) (size int64, ok bool) {
	for unit, shift := range map[string]int{"KB": 10, "MB": 20, "GB": 30} {
		if digits, found := strings.CutSuffix(name, unit); found {
			n, err := strconv.ParseInt(digits, 10, 32)
			return n << shift, err == nil && n > 0
		}
	}
	return 0, false
}

// hugetlbFiles are a page size's files that differ in name between the versions.
type hugetlbFiles struct{ limit, use, none string }

var hugetlbNames = map[bool]hugetlbFiles{
	false: {limit: "limit_in_bytes", use: "usage_in_bytes", none: "-1"},
	true:  {limit: "max", use: "current", none: "max"},
}

// hugetlbKnobs are the knobs of the page sizes that some limits name.
func hugetlbKnobs(v2 bool, limits ...*Limits) []knob {
	var knobs []knob
	for _, size := range sizesIn(limits...) {
		names, prefix := hugetlbNames[v2], "hugetlb."+pageName(size)+"."
		for _, kind := range []struct {
			prefix string
			has    bool // every kernel has it
		}{{prefix, true}, {prefix + "rsvd.", false}} {
			knobs = append(knobs, knob{
				file: kind.prefix + names.limit, use: kind.prefix + names.use,
				format: asSize, none: names.none, optional: !kind.has,
				get: func(l *Limits) string {
					n, ok := l.Hugetlb[size]
					if !ok {
						return ""
					}
					return strconv.FormatInt(n-n%size, 10) // as the kernel rounds (hugetlb_cgroup_write)
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

// pageSizes lists the page sizes that d has files of, smallest first.
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

// readHugetlb reads the limits of every page size.
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

// hugetlbPeak sums what v1 keeps of each page size. v2 keeps no peak of huge pages.
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
