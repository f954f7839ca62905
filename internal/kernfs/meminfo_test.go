package kernfs

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func TestMeminfoHasWhatTheKernelHas(t *testing.T) {
	dir := t.TempDir()
	text := "MemTotal:  2 kB\nHugePages_Total:  5\nSwapFree:\t0 kB\nActive(anon): x kB\nZswap: 1 MB\n"
	must.NoError(t, os.WriteFile(filepath.Join(dir, "meminfo"), []byte(text), 0o600))
	f, err := Open(dir)
	must.NoError(t, err)
	got, err := f.Meminfo("meminfo", "MemTotal", "SwapFree", "SwapTotal")
	if want := map[string]int64{"MemTotal": 2048, "SwapFree": 0}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	var parse *ParseError
	if got, err := f.Meminfo("meminfo", "Zswap"); !errors.As(err, &parse) {
		t.Errorf("in another unit: %v, %v", got, err)
	}
}

func FuzzMeminfo(f *testing.F) {
	f.Add([]byte("MemTotal:       24684084 kB\n"))
	f.Add([]byte("Node 0 MemTotal:        4024524 kB\n"))
	f.Add([]byte("Node MemTotal:\nMemTotal: -1 kB"))
	f.Fuzz(func(t *testing.T, text []byte) {
		values, bad := parseMeminfo(text, []string{"MemTotal"})
		if n, found := values["MemTotal"]; n < 0 || found && bad != nil || len(values) > 1 {
			t.Errorf("%q: %v, %q", text, values, bad)
		}
	})
}
