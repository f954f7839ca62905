package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// HugePages are the huge pages of a machine.
type HugePages struct {
	// Default is the size in bytes of the kernel's default huge page, that of hpmem; 0 without huge
	// pages.
	Default int64
	// Total has the huge pages in bytes, by page size in bytes. It includes sizes without pages.
	Total map[int64]int64
}

const hugePagesDir = "kernel/mm/hugepages"

// ScanHugePages reads /sys/kernel/mm/hugepages (Documentation/admin-guide/mm/hugetlbpage.rst) and
// Hugepagesize of /proc/meminfo. It is separate from Scan because the administrator may change the
// totals at any time. If the kernel does not support huge pages, the result is empty.
func ScanHugePages(roots kernfs.Roots) (HugePages, error) {
	h := HugePages{}
	var err error
	if h.Total, err = readHugePages(roots.Sys, hugePagesDir); err != nil || h.Total == nil {
		return h, err
	}
	values, err := roots.Proc.Meminfo("meminfo", "Hugepagesize")
	if err != nil {
		return h, fmt.Errorf("scan huge pages: %w", err)
	}
	h.Default = values["Hugepagesize"]
	return h, nil
}

// NUMAHugePages returns the huge pages of one NUMA node, in bytes by page size in bytes, or nil if
// the kernel does not show them.
func NUMAHugePages(sys *kernfs.FS, node int) (map[int64]int64, error) {
	return readHugePages(sys, fmt.Sprintf("%s/node%d/hugepages", nodeDir, node))
}

// readHugePages reads the pools in dir.
func readHugePages(sys *kernfs.FS, dir string) (map[int64]int64, error) {
	names, err := sys.Dirs(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("scan huge pages: %w", err)
	}
	total := map[int64]int64{}
	for _, name := range names {
		number, ok := strings.CutPrefix(name, "hugepages-")
		number, isKB := strings.CutSuffix(number, "kB")
		kb, err := strconv.ParseInt(number, 10, 32)
		if !ok || !isKB || err != nil || kb <= 0 {
			continue
		}
		file := dir + "/" + name + "/nr_hugepages"
		n, err := sys.Uint(file)
		if err == nil && n > uint64(math.MaxInt64/(kb*1024)) {
			err = &kernfs.ParseError{File: sys.Path(file), Text: fmt.Sprint(n),
				Err: errors.New("more than there can be")}
		}
		if err != nil {
			return nil, fmt.Errorf("scan huge pages: %w", err)
		}
		total[kb*1024] = int64(n) * kb * 1024
	}
	return total, nil
}
