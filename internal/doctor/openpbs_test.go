package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/integrations/openpbs/table"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/settings"
)

// nodeWith is a node that has one hook, cgroup, where hookhost is enabled.
func nodeWith(t *testing.T, cfg *config.File) *Node {
	t.Helper()
	slow := plugin.DefaultAttributes()
	slow.Alarm = 60
	r := &plugin.Registry{Dir: t.TempDir(), BuiltIn: []plugin.Hook{{Name: "cgroup", Attributes: slow, BuiltIn: true}}}
	if !cfg.Host.Enabled {
		r.BuiltIn = nil
	}
	return &Node{
		Settings: settings.Settings{File: cfg}, Socket: table.Socket,
		Hooks: func() (*plugin.Registry, error) { return r, nil },
	}
}

// Doctor has a finding of the hook as the server has sent it to this node.
func TestHookIsComparedWithThisProgram(t *testing.T) {
	ours, older := string(openpbs.Script("")), string(openpbs.Script(""))+"# older\n"
	control := controlOf(openpbs.Default(), "")
	for _, tt := range []struct {
		name   string
		files  map[string]string
		status Status
		found  string
	}{
		{"none", map[string]string{"other.PY": "import pbs\n"}, Impossible, "hookhost's is not in "},
		{"ours", map[string]string{"h.PY": ours, "h.HK": control}, OK, "h.PY, calls /run/hookhost/hookhost.sock"},
		{"disabled", map[string]string{"h.PY": ours, "h.HK": "enabled=false\n"}, Impossible, "is not enabled"},
		{"older", map[string]string{"h.PY": older, "h.HK": control}, Degraded, "another version"},
		{"socket", map[string]string{"h.PY": ours, "h.HK": control, "h.CF": "[shim]\nsocket = \"/run/x\"\n"},
			Degraded, "calls /run/x; the daemon's socket is"},
		{"both", map[string]string{"h.PY": ours, "h.HK": control, "pbs_cgroups.HK": "order=100\n",
			"pbs_cgroups.PY": "x"},
			Degraded, "both confine each job"},
		{"two of ours", map[string]string{"g.PY": older, "g.HK": control, "h.PY": ours, "h.HK": control},
			Degraded, "beside g: each event comes twice"},
		{"one of two", map[string]string{"g.PY": older, "g.HK": "enabled=false\n", "h.PY": ours, "h.HK": control},
			OK, "h.PY"},
		{"stock on other hosts", map[string]string{"h.PY": ours, "h.HK": control, "pbs_cgroups.HK": "order=100\n",
			"pbs_cgroups.PY": "x", "pbs_cgroups.CF": `{"exclude_hosts": ["*"], "cgroup": {"memory": {"enabled": true}}}`},
			OK, "h.PY"},
		{"stock here", map[string]string{"h.PY": ours, "h.HK": control, "pbs_cgroups.HK": "order=100\n",
			"pbs_cgroups.PY": "x", "pbs_cgroups.CF": `{"exclude_hosts": ["x"], "cgroup": {"memory": {"enabled": true}}}`},
			Degraded, "both confine each job"},
		{"stock disabled", map[string]string{"h.PY": ours, "h.HK": control, "pbs_cgroups.HK": "enabled=false\n"},
			OK, "h.PY"},
		{"resource unknown",
			map[string]string{"h.PY": ours, "h.HK": control, "resourcedef": "hpmem type=size flag=hm\n"},
			Degraded, "the server does not know it"},
		{"no resource", map[string]string{"h.PY": ours, "h.HK": control, "resourcedef": ""},
			Degraded, "the server does not know it"},
		{"resource unknown, disabled", map[string]string{"h.PY": ours, "h.HK": "enabled=false\n", "resourcedef": ""},
			Impossible, "is not enabled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			dir := filepath.Join(home, "mom_priv", "hooks")
			must.NoError(t, os.MkdirAll(dir, 0o700))
			if _, there := tt.files["resourcedef"]; !there {
				tt.files["resourcedef"] = "diag_messages type=string\nhost_usage type=string\n"
			}
			for name, text := range tt.files {
				must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			n := nodeWith(t, config.Default())
			n.Settings.File.OpenPBS = config.OpenPBS{Home: home, Conf: filepath.Join(home, "none.conf")}
			findings := n.examineOpenPBS(nil)
			last := findings[len(findings)-1]
			if last.Status != tt.status || !strings.Contains(last.Found, tt.found) {
				t.Errorf("%+v: want %s, %q", last, tt.status, tt.found)
			}
			n.Settings.File.Host.Enabled = false
			for _, f := range n.examineOpenPBS(nil) {
				if strings.Contains(f.Found, "both confine") {
					t.Errorf("on a host that hookhost leaves alone: %+v", f)
				}
			}
		})
	}
	cfg := config.Default()
	cfg.Private.Dirs = []config.PrivateDir{{Path: config.SharedMemory}}
	cfg.Container.Enabled = true
	home := t.TempDir()
	for text, want := range map[string][]Status{
		"host_usage type=string\n": {Degraded, Degraded, OK},
		"diag_messages type=string\nhost_usage type=string\ncontainer type=string flag=m\n" +
			"shm_size type=size flag=m\n": nil,
	} {
		must.NoError(t, os.WriteFile(filepath.Join(home, "resourcedef"), []byte(text), 0o600))
		var got []Status
		for _, f := range examineResources(openpbs.MoMHooks(home), cfg) {
			got = append(got, f.Status)
			if f.Advice == "" {
				t.Errorf("no advice: %+v", f)
			}
		}
		must.Equal(t, text, want, got)
	}
	n := nodeWith(t, config.Default())
	n.Settings.File.OpenPBS.Home = t.TempDir()
	if f := n.examineOpenPBS(nil); f != nil {
		t.Errorf("without pbs_mom: %+v", f)
	}
}
