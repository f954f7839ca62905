package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

// marks is a job's cgroup as far as grants are concerned.
type marks map[string][]byte

func (m marks) Mark(name string) ([]byte, error) {
	if b, ok := m[name]; ok {
		return b, nil
	}
	return nil, fmt.Errorf("getxattr %s: %w", name, unix.ENODATA)
}

func (m marks) SetMark(name string, b []byte) error { m[name] = b; return nil }

// broken is a cgroup whose attributes fail.
type broken struct{}

func (broken) Mark(string) ([]byte, error)  { return nil, unix.EIO }
func (broken) SetMark(string, []byte) error { return unix.ENOSPC }

func load(t *testing.T, name string) *Inventory {
	t.Helper()
	inv, err := Load(filepath.Join("testdata", name))
	must.NoError(t, err)
	return inv
}

func TestGrantHasTheDevicesAndTheirSharedNodes(t *testing.T) {
	inv := load(t, "a100x8")
	ids := []string{inv.Devices[5].ID, inv.Devices[2].ID, inv.Devices[5].ID}
	g, err := inv.Grant(ids)
	must.NoError(t, err)
	if len(g.Devices) != 2 || g.Devices[0].ID != inv.Devices[2].ID || g.Devices[1].ID != inv.Devices[5].ID ||
		g.Devices[0].Links != nil {
		t.Errorf("devices %+v, want the third and the sixth without links", g.Devices)
	}
	must.Equal(t, "shared nodes", inv.Shared["nvidia"], g.Shared)
	if len(inv.Devices[2].Links) != 7 {
		t.Error("Grant has changed the inventory")
	}
	if g, err := inv.Grant(nil); err != nil || len(g.Devices) != 0 || g.Shared != nil || g.Devices == nil {
		t.Errorf("nothing: %+v, %v", g, err)
	}
	if g, err := inv.Grant([]string{inv.Devices[0].ID, "GPU-gone"}); err == nil || g != nil ||
		!strings.Contains(err.Error(), `["GPU-gone"]`) {
		t.Errorf("unknown: %+v, %v", g, err)
	}
}

func TestGrantOfSeveralVendors(t *testing.T) {
	nvidia, amd := load(t, "a100x8"), load(t, "mi250x4")
	inv := &Inventory{Devices: slices.Concat(nvidia.Devices, amd.Devices), Shared: maps.Clone(nvidia.Shared)}
	maps.Copy(inv.Shared, amd.Shared)
	g, err := inv.Grant([]string{amd.Devices[0].ID, nvidia.Devices[0].ID})
	must.NoError(t, err)
	var got []string
	for _, n := range g.Shared {
		got = append(got, n.Path)
	}
	if want := []string{"/dev/kfd", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}; !slices.Equal(got,
		want) {
		t.Errorf("shared %v, want %v", got, want)
	}
}

func TestGrantIsKept(t *testing.T) {
	m := marks{}
	if g, err := GrantOf(m); g != nil || err != nil {
		t.Errorf("a job without: %+v, %v", g, err)
	}
	inv := load(t, "a100x2-mig")
	g, err := inv.Grant([]string{inv.Devices[1].ID, inv.Devices[2].ID})
	must.NoError(t, err)
	g.Blocks = []int{1, 3}
	g.Leaving = slices.Clone(inv.Devices[3:4])
	g.Devices[0].Links = map[string]int{"GPU-x": 1}
	must.NoError(t, g.Mark(m))
	got, err := GrantOf(m)
	must.NoError(t, err)
	if g.Devices[0].Links == nil {
		t.Error("Mark has changed the grant")
	}
	g.Devices[0].Links = nil
	must.Equal(t, "kept", g, got)
	for name, b := range map[string]string{"damaged": "{", "empty": ""} {
		if g, err := GrantOf(marks{grantMark: []byte(b)}); err == nil || g != nil {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
	if g, err := GrantOf(broken{}); !errors.Is(err, unix.EIO) || g != nil {
		t.Errorf("unreadable: %+v, %v", g, err)
	}
	if err := g.Mark(broken{}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("not taken: %v", err)
	}
}

// A device that a job gives up is the job's until its filter follows the grant that says so, or a
// later one.
func TestDeviceLeavesWhenItsGrantIsApplied(t *testing.T) {
	m := marks{}
	grant := func(serial int, leaving ...topology.Device) *Grant {
		g := &Grant{Devices: []topology.Device{}, Leaving: leaving, Serial: serial}
		must.NoError(t, g.Mark(m))
		return g
	}
	leaving := func(when string, want int) {
		t.Helper()
		if g, err := GrantOf(m); err != nil || len(g.Leaving) != want {
			t.Errorf("%s: %+v, %v; want %d devices that leave", when, g, err, want)
		}
	}
	first := grant(1, topology.Device{ID: "a"})
	leaving("before the filter follows", 1)
	must.NoError(t, first.Applied(m))
	leaving("afterwards", 0)
	second := grant(2, topology.Device{ID: "b"})
	leaving("of the next grant", 1)
	must.NoError(t, first.Applied(m)) // read before the second was written
	leaving("where the filter follows the first", 1)
	must.NoError(t, second.Applied(m))
	leaving("where it follows the second", 0)
	m[appliedMark] = []byte("x")
	if g, err := GrantOf(m); err == nil {
		t.Errorf("with a damaged mark: %+v", g)
	}
}

// TestLargestGrant: all instances of the largest machine with MIG fit on a cgroup; what does not is
// refused before the earlier grant is touched.
func TestLargestGrant(t *testing.T) {
	instance := load(t, "a100x2-mig").Devices[1]
	grant := func(n int) *Grant { return &Grant{Devices: slices.Repeat([]topology.Device{instance}, n)} }
	m := marks{}
	must.NoError(t, grant(8*7).Mark(m))
	kept := m[grantMark]
	if err := grant(1000).Mark(m); err == nil || !strings.Contains(err.Error(), "1000 devices") {
		t.Errorf("too large: %v", err)
	}
	if string(m[grantMark]) != string(kept) {
		t.Error("the earlier grant is gone")
	}
}

func TestStoredInventoryIsLoadedAgain(t *testing.T) {
	dir := t.TempDir()
	if inv, err := Load(dir); !errors.Is(err, fs.ErrNotExist) || inv != nil {
		t.Errorf("none: %+v, %v", inv, err)
	}
	for _, name := range []string{"mi250x4", "a100x8"} {
		want := load(t, name)
		must.NoError(t, want.Store(dir))
		got, err := Load(dir)
		must.NoError(t, err)
		must.Equal(t, name, want, got)
	}
	info, err := os.Stat(filepath.Join(dir, "devices.json"))
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
	must.NoError(t, os.WriteFile(filepath.Join(dir, "devices.json"), []byte("{"), 0o644))
	if inv, err := Load(dir); err == nil || inv != nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("damaged: %+v, %v", inv, err)
	}
	if err := load(t, "none").Store(filepath.Join(dir, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}
