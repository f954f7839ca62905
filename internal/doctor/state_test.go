package doctor

import (
	"errors"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/nodestate"
)

func TestStateDirectoryIsExamined(t *testing.T) {
	for _, tt := range []struct {
		name   string
		edit   func(*volume)
		status Status
		blocks bool
	}{
		{"a disk", func(*volume) {}, "ok", false},
		{"read-only", func(v *volume) { v.readOnly = true }, "impossible", true},
		{"full", func(v *volume) { v.free = 0 }, "impossible", true},
		{"no inodes", func(v *volume) { v.noInodes = true }, "impossible", true},
		{"nearly full", func(v *volume) { v.free = 2 << 20 }, "degraded", false},
		{"NFS", func(v *volume) { v.kind = 0x6969 }, "degraded", false},
		{"tmpfs", func(v *volume) { v.kind = 0x01021994 }, "degraded", false},
		{"anybody's", func(v *volume) { v.foreign = errors.New("mode 0777") }, "impossible", true},
		{"not made yet", func(v *volume) { v.made = false }, "ok", false},
	} {
		v := volume{dir: "/var/lib/hookhost", made: true, kind: 0xef53, free: 1 << 40}
		tt.edit(&v)
		if f := v.examine(); f.Status != tt.status || f.Blocks != tt.blocks || f.Status != "ok" && f.Advice == "" {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
	if f := examineState(t.TempDir() + "/a/b"); f.Status == Impossible && !strings.Contains(f.Found, "full") {
		t.Errorf("%+v", f)
	}
	if v, err := readVolume("/proc/version"); err == nil {
		t.Errorf("a file: %+v", v)
	}
}

func TestReasonWhyVnodesAreOfflineIsReported(t *testing.T) {
	d := t.TempDir()
	causes := map[string]*nodestate.Offline{"failed x": {Comment: "x failed; remedy"}}
	must.NoError(t, nodestate.Dir(d).SetOffline(causes))
	f := examineOffline(d)
	if len(f) != 1 || f[0].Status != Degraded || !strings.Contains(f[0].Found, ": x failed; remedy") {
		t.Errorf("%+v", f)
	}
	if f := examineOffline(t.TempDir()); len(f) != 0 {
		t.Errorf("%+v", f)
	}
}
