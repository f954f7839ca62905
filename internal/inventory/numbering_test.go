package inventory

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// changedTree returns a fixture with files that are put in, or with "-" as text taken away.
func changedTree(t *testing.T, name string, files map[string]string) kernfs.Roots {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	must.NoError(t, err)
	var kept []txtar.File
	for _, f := range a.Files {
		if _, ok := files[f.Name]; !ok {
			kept = append(kept, f)
		}
	}
	for n, text := range files {
		if text != "-" {
			kept = append(kept, txtar.File{Name: n, Data: []byte(text)})
		}
	}
	a.Files = kept
	path := filepath.Join(t.TempDir(), "tree.txtar")
	must.NoError(t, os.WriteFile(path, txtar.Format(a), 0o600))
	return kernfstest.FixtureRoots(t, path)
}

// The numbers of an inventory are good while the boot and the majors of its devices' drivers are
// the same; others may come and go.
func TestNumbersHoldWhileBootAndMajorsDo(t *testing.T) {
	const boot = "proc/sys/kernel/random/boot_id"
	devices := func(lines string) map[string]string {
		return map[string]string{"proc/devices": "Character devices:\n" + lines + "\nBlock devices:\n  7 loop\n"}
	}
	const drivers = "195 nvidia\n195 nvidiactl\n235 nvidia-caps\n507 nvidia-uvm\n"
	_, o := fixture(t, "a100x2-mig")
	inv := Scan(t.Context(), changedTree(t, "a100x2-mig", devices("  1 mem\n"+drivers)), o)
	if slices.Contains(inv.Numbering, "c 1 mem") || !slices.Contains(inv.Numbering, "c 507 nvidia-uvm") ||
		!slices.Contains(inv.Numbering, "c 235 nvidia-caps") {
		t.Fatalf("numbering %q", inv.Numbering)
	}
	reboot := devices("  1 mem\n" + drivers)
	reboot[boot] = "another\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  bool
	}{
		{"nothing changed", devices("  1 mem\n" + drivers), true},
		{"another driver came", devices("  1 mem\n" + drivers + "195 nvidia-modeset\n511 knem\n"), true},
		{"another driver went", devices(drivers), true},
		{"another boot", reboot, false},
		{"one was loaded anew", devices("195 nvidia\n195 nvidiactl\n235 nvidia-caps\n508 nvidia-uvm\n507 knem\n"),
			false},
		{"one is gone", devices("195 nvidia\n195 nvidiactl\n235 nvidia-caps\n"), false},
	} {
		now, err := Numbering(changedTree(t, "a100x2-mig", tt.files))
		must.NoError(t, err)
		if got := inv.Numbered(now); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
	if (&Inventory{}).Numbered([]string{"boot x"}) {
		t.Error("one that does not say what its numbers depend on is taken to be good")
	}
}
