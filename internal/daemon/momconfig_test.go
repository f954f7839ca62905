package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

// After 'openpbs install --name' events come from a hook of another name. A configuration that a
// reload would not read makes no reload.
func TestConfigurationOfTheHookThatSendsTheEventCounts(t *testing.T) {
	home := t.TempDir()
	hooks := openpbs.HooksOf(home)
	must.NoError(t, os.MkdirAll(string(hooks), 0o700))
	write := func(file, text string) { must.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	for name, enabled := range map[string]string{"before": "false", "now": "true"} {
		write(hooks.Script(name), string(openpbs.Script("")))
		write(filepath.Join(string(hooks), name+".HK"), "enabled="+enabled+"\n")
		write(hooks.Config(name), "of "+name)
	}
	conf := filepath.Join(home, "pbs.conf")
	write(conf, "PBS_HOME="+home+"\n")
	for _, tt := range []struct {
		name, hook string
		own        bool
		conf       string
		want       bool
	}{
		{"after an install with another name", "now", false, conf, true},
		{"of the hook before", "before", false, conf, false},
		{"at an event of another MoM", "other", false, conf, false},
		{"beside the node's own file", "now", true, conf, false},
		{"without PBS", "now", false, "", false},
		{"of a hook that is a path", "../hooks/now", false, conf, false},
	} {
		c := &configuration{}
		c.sent.own = tt.own
		c.file.Store(&config.File{OpenPBS: config.OpenPBS{Conf: tt.conf}})
		if got := c.isNew(tt.hook); got != tt.want {
			t.Errorf("%s: new %v, want %v", tt.name, got, tt.want)
		}
		if c.isNew(tt.hook) {
			t.Errorf("%s: new twice", tt.name)
		}
	}
}
