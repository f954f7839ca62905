package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

// After 'openpbs install --name' events come from a hook of another name.
func TestConfigurationOfTheHookThatSendsTheEventCounts(t *testing.T) {
	home := t.TempDir()
	hooks := openpbs.HooksOf(home)
	must.NoError(t, os.MkdirAll(string(hooks), 0o700))
	for _, name := range []string{"before", "now"} {
		must.NoError(t, os.WriteFile(hooks.Script(name), openpbs.Script(""), 0o600))
	}
	conf := filepath.Join(home, "pbs.conf")
	must.NoError(t, os.WriteFile(conf, []byte("PBS_HOME="+home+"\n"), 0o600))
	for _, tt := range []struct {
		name, hook string
		own        bool
		conf, want string
	}{
		{"as it was", "before", false, conf, hooks.Config("before")},
		{"after an install with another name", "now", false, conf, hooks.Config("now")},
		{"at an event of another MoM", "other", false, conf, ""},
		{"beside the node's own file", "now", true, conf, ""},
		{"without PBS", "now", false, "", ""},
		{"of a hook that is a path", "../hooks/now", false, conf, ""},
	} {
		c := &configuration{}
		c.sent.own = tt.own
		c.file.Store(&config.File{OpenPBS: config.OpenPBS{Conf: tt.conf}})
		if got := c.sentPath(tt.hook); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
