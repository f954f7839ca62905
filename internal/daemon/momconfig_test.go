package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/settings"
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

// A configuration is not lost because it could not be read, or put in force, at its first event.
func TestConfigurationIsTriedAgainAfterAFault(t *testing.T) {
	home := t.TempDir()
	hooks := openpbs.HooksOf(home)
	must.NoError(t, os.MkdirAll(string(hooks), 0o700))
	write := func(file, text string) { must.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	conf := filepath.Join(home, "pbs.conf")
	write(conf, "PBS_HOME="+home+"\n")
	write(hooks.Script("h"), string(openpbs.Script("")))
	write(hooks.Config("h"), "# good")
	log, logged := test.NewNullLogger()
	c := &configuration{log: logrus.NewEntry(log)}
	c.file.Store(&config.File{OpenPBS: config.OpenPBS{Conf: conf}})
	expect := func(when string, want bool) {
		t.Helper()
		if got := c.isNew("h"); got != want {
			t.Errorf("%s: new %v, want %v", when, got, want)
		}
	}
	read := settings.Settings{PBS: settings.Sent{Path: hooks.Config("h"), Text: []byte("# good")}}
	faulty := settings.Settings{PBS: settings.Sent{Path: hooks.Config("h")}, Refused: unix.EIO}

	expect("at first", true)
	c.noteFailed(unix.ENOMEM)
	expect("after a reload that failed", true)
	c.noteFailed(unix.ENOMEM)
	expect("after another one", true)
	c.noteSent(faulty)
	expect("after a reload that could not read it", true)
	c.noteSent(read)
	expect("in force", false)
	must.Equal(t, "lines of the log", 2, len(logged.AllEntries()))

	must.NoError(t, os.Remove(hooks.Config("h")))
	expect("removed", true)
	c.noteFailed(unix.ENOMEM)
	expect("removed, after a reload that failed", true)
	c.noteSent(settings.Settings{})
	expect("in force without it", false)
}
