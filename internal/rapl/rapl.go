// Package rapl reads how much energy the node's processors and their memory have used, by the
// kernel's powercap interface (Documentation/power/powercap/powercap.rst).
package rapl

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// zonesDir has a directory for each processor package, with one for its memory below.
const zonesDir = "devices/virtual/powercap/intel-rapl"

// ErrNone says that the kernel counts no energy on this node, as in most virtual machines.
var ErrNone = errors.New("the kernel has no energy counters (powercap, intel-rapl)")

// Meter adds up the counters of all packages and their memory. A Meter is safe for concurrent use.
type Meter struct {
	sys *kernfs.FS

	mu     sync.Mutex
	zones  []zone
	joules float64
}

// zone is a counter in microjoules, which begins again at 0 beyond its range.
type zone struct {
	dir   string
	last  uint64
	limit uint64
}

// Open finds the counters below sys and reads them once. Open fails with ErrNone where there are
// none.
func Open(sys *kernfs.FS) (*Meter, error) {
	m := &Meter{sys: sys}
	packages, err := zonesIn(sys, zonesDir, "package")
	if err != nil || len(packages) == 0 {
		return nil, ErrNone
	}
	dirs := packages
	for _, dir := range packages {
		memory, err := zonesIn(sys, dir, "dram")
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, memory...)
	}
	for _, dir := range dirs {
		z := zone{dir: dir}
		if z.limit, err = sys.Uint(dir + "/max_energy_range_uj"); err != nil {
			return nil, err
		}
		if z.last, err = sys.Uint(dir + "/energy_uj"); err != nil {
			return nil, err
		}
		m.zones = append(m.zones, z)
	}
	return m, nil
}

// zonesIn returns the directories below dir whose zone has a name that begins with prefix.
func zonesIn(sys *kernfs.FS, dir, prefix string) ([]string, error) {
	names, err := sys.Dirs(dir)
	if err != nil {
		return nil, err
	}
	var zones []string
	for _, name := range names {
		if !strings.HasPrefix(name, "intel-rapl:") {
			continue
		}
		text, err := sys.ReadFile(dir + "/" + name + "/name")
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(string(text), prefix) {
			zones = append(zones, dir+"/"+name)
		}
	}
	return zones, nil
}

// Joules returns what was used since Open. A counter goes round within a quarter of an hour under
// full load, so Joules has to be called more often than that. After an error the next call counts
// what this one has not.
func (m *Meter) Joules() (float64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.zones {
		z := &m.zones[i]
		now, err := m.sys.Uint(z.dir + "/energy_uj")
		if err != nil {
			return 0, fmt.Errorf("read energy: %w", err)
		}
		used := now - z.last
		if now < z.last {
			used = z.limit - z.last + now
		}
		z.last = now
		m.joules += float64(used) / 1e6
	}
	return m.joules, nil
}
