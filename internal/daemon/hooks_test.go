package daemon

import (
	"path/filepath"
	"testing"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

// The program of a hook that the configuration turns off does not run. Only cgroup always does.
func TestDisabledHooksAreNotStarted(t *testing.T) {
	names := func(cfg *config.File) (names, off []string) {
		paths := Paths{State: t.TempDir(), Socket: filepath.Join(t.TempDir(), "sock")}
		hooks, off, err := paths.builtIn(cfg)
		must.NoError(t, err)
		for _, h := range hooks {
			names = append(names, h.Name)
		}
		return names, off
	}
	test := func(what string, cfg *config.File, wantOn, wantOff []string) {
		t.Helper()
		on, off := names(cfg)
		must.Equal(t, what, wantOn, on)
		must.Equal(t, what+": off", wantOff, off)
	}
	cfg := config.Default()
	test("by default", cfg, []string{"cgroup", "devices", "walltime", "mpi"}, []string{"private", "container"})
	cfg.Devices.Enabled, cfg.Walltime.Enabled, cfg.MPI.Enabled = false, false, false
	test("turned off", cfg, []string{"cgroup"}, []string{"devices", "walltime", "mpi", "private", "container"})
	cfg.Private.TMP, cfg.Container.Enabled = true, true
	test("turned on", cfg, []string{"cgroup", "private", "container"}, []string{"devices", "walltime", "mpi"})
	cfg.Host.Enabled = false
	test("hookhost is off", cfg, nil, nil)
}
