package daemon

import (
	"path/filepath"
	"testing"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

// The program of a hook that the configuration turns off does not run. Only cgroup always does.
func TestDisabledHooksAreNotStarted(t *testing.T) {
	names := func(cfg *config.File) (names []string) {
		paths := Paths{State: t.TempDir(), Socket: filepath.Join(t.TempDir(), "sock")}
		hooks, err := paths.builtIn(cfg)
		must.NoError(t, err)
		for _, h := range hooks {
			names = append(names, h.Name)
		}
		return names
	}
	cfg := config.Default()
	must.Equal(t, "by default", []string{"cgroup", "devices", "walltime", "mpi"}, names(cfg))
	cfg.Devices.Enabled, cfg.Walltime.Enabled, cfg.MPI.Enabled = false, false, false
	must.Equal(t, "turned off", []string{"cgroup"}, names(cfg))
	cfg.Private.TMP, cfg.Container.Enabled = true, true
	must.Equal(t, "turned on", []string{"cgroup", "private", "container"}, names(cfg))
	cfg.Host.Enabled = false
	must.Equal(t, "hookhost is off", []string(nil), names(cfg))
}
