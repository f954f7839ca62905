package main_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// TestDoctorSaysWhatOfTheFileTheDaemonDoesNotHave: settings that wait for a reload, settings that a
// reload refuses, and a file that cannot be read.
func TestDoctorSaysWhatOfTheFileTheDaemonDoesNotHave(t *testing.T) {
	n := newNode(t, "[host]\nstart_timeout = \"60s\"")
	before, err := os.ReadFile(n.path("hookhost.toml"))
	must.NoError(t, err)
	d := n.serve()
	defer d.stop()
	for _, tt := range []struct {
		name, old, new, want string
		waits                bool // after a reload, too
	}{
		{"as it is", "", "", "ok configuration the daemon has what " + n.path("hookhost.toml") + " says", false},
		{"a setting", "[host]\n", "[host]\nlog_level = \"debug\"\n",
			`degraded configuration the daemon does not have what ` + n.path("hookhost.toml") +
				` says: host.log_level ("info" in force, "debug" in the file) → systemctl reload`, false},
		{"another prefix", n.prefix, n.prefix + "x", `and a reload is refused: cgroup.prefix ("` + n.prefix +
			`" in force, "` + n.prefix + `x" in the file)`, true},
		{"another name", "[host]\n", "[host]\nnode = \"other\"\n", `a reload is refused: host.node (`, true},
		{"another name beside a setting", "[host]\n", "[host]\nnode = \"other\"\nlog_level = \"debug\"\n",
			`"other" in the file); nor host.log_level ("info" in force, "debug" in the file)`, true},
		{"no configuration", "[host]\n", "[host]\nlog_levle = \"debug\"\n",
			`the daemon runs with what it read before: `, true},
	} {
		text := strings.Replace(string(before), tt.old, tt.new, 1)
		must.NoError(t, os.WriteFile(n.path("hookhost.toml"), []byte(text), 0o600))
		says := func() string {
			t.Helper()
			// doctor itself reads the file as it was: what it says of the daemon is the daemon's
			// word.
			must.NoError(t, os.WriteFile(n.path("other.toml"), before, 0o600))
			r := n.hookhost("doctor", "--config", n.path("other.toml"))
			return strings.Join(strings.Fields(r.stdout), " ")
		}
		if got := says(); !strings.Contains(got, tt.want) {
			t.Errorf("%s: doctor does not say %q: %s", tt.name, tt.want, got)
			continue
		}
		log := func() int { return n.logged("reload") }
		lines := log()
		must.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
		must.Eventually(t, tt.name+": the log has a reload", func() bool { return log() > lines })
		if got := says(); strings.Contains(got, tt.want) != tt.waits && tt.name != "as it is" {
			t.Errorf("%s: after a reload doctor says: %s", tt.name, got)
		}
		must.NoError(t, os.WriteFile(n.path("hookhost.toml"), before, 0o600))
		must.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
		must.Eventually(t, tt.name+": the first file is in force again", func() bool {
			return strings.Contains(says(), "ok configuration")
		})
	}
}
