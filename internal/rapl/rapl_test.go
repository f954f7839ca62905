package rapl

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// zones is a /sys with two packages, of which one has its memory counted, and zones that are parts
// of others.
func zones(t *testing.T) (sys *kernfs.FS, set func(zone string, microjoules int)) {
	t.Helper()
	root := t.TempDir()
	for dir, name := range map[string]string{
		"intel-rapl:0": "package-0", "intel-rapl:0/intel-rapl:0:0": "core", "intel-rapl:0/intel-rapl:0:1": "dram",
		"intel-rapl:1": "package-1", "intel-rapl:2": "psys", "power": "",
	} {
		dir = filepath.Join(root, zonesDir, dir)
		must.NoError(t, os.MkdirAll(dir, 0o755))
		for file, text := range map[string]string{"name": name, "energy_uj": "1000000",
			"max_energy_range_uj": "262143328850"} {
			must.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o644))
		}
	}
	sys, err := kernfs.Open(root)
	must.NoError(t, err)
	return sys, func(zone string, microjoules int) {
		must.NoError(t, os.WriteFile(filepath.Join(root, zonesDir, zone, "energy_uj"),
			[]byte(strconv.Itoa(microjoules)+"\n"), 0o644))
	}
}

func TestEnergyOfPackagesAndTheirMemoryIsAddedUp(t *testing.T) {
	sys, set := zones(t)
	m, err := Open(sys)
	must.NoError(t, err)
	set("intel-rapl:0", 3_000_000)
	set("intel-rapl:0/intel-rapl:0:0", 900_000_000)
	set("intel-rapl:0/intel-rapl:0:1", 1_500_000)
	set("intel-rapl:1", 2_000_000)
	set("intel-rapl:2", 900_000_000)
	joules, err := m.Joules()
	must.NoError(t, err)
	must.Equal(t, "joules", 3.5, joules)
	joules, err = m.Joules()
	must.NoError(t, err)
	must.Equal(t, "joules of an unchanged counter", 3.5, joules)
}

func TestCounterThatGoesRoundLosesNothing(t *testing.T) {
	sys, set := zones(t)
	set("intel-rapl:1", 262_143_000_000)
	m, err := Open(sys)
	must.NoError(t, err)
	set("intel-rapl:1", 671_150)
	joules, err := m.Joules()
	must.NoError(t, err)
	must.Equal(t, "joules", 1.0, joules)
}

func TestNodeWithoutCountersHasNoMeter(t *testing.T) {
	sys, err := kernfs.Open(t.TempDir())
	must.NoError(t, err)
	if _, err := Open(sys); !errors.Is(err, ErrNone) {
		t.Errorf("error %v, want %v", err, ErrNone)
	}
}
