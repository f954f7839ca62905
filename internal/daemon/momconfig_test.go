package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

func TestOnlyTheConfiguredMoMsConfigurationCounts(t *testing.T) {
	const path = "/pbs/mom_priv/hooks/h.CF"
	conf := filepath.Join(t.TempDir(), "pbs.conf")
	must.NoError(t, os.WriteFile(conf, []byte("PBS_HOME=/pbs\n"), 0o600))
	for _, tt := range []struct {
		name, hook string
		path       string
		own        bool
		conf, want string
	}{
		{"as it was read", "h", path, false, conf, path},
		{"at an event of another MoM", "other", path, false, conf, path},
		{"beside the node's own file", "h", path, true, conf, ""},
		{"of a hook that came later", "h", "", false, conf, path},
		{"without PBS", "h", "", false, "", ""},
		{"of a hook that is a path", "../h", "", false, conf, ""},
	} {
		c := &configuration{}
		c.sent.path, c.sent.own = tt.path, tt.own
		c.file.Store(&config.File{OpenPBS: config.OpenPBS{Conf: tt.conf}})
		if got := c.sentPath(tt.hook); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
