package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/config"
)

// Doctor tells of the hook as the server has sent it to this node.
func TestDoctorOpenPBS(t *testing.T) {
	ours, older := string(openpbs.Script("")), string(openpbs.Script(""))+"# older\n"
	control := controlOf(openpbs.Default(), "")
	for _, tt := range []struct {
		name   string
		files  map[string]string
		status string
		found  string
	}{
		{"none", map[string]string{"other.PY": "import pbs\n"}, statusImpossible, "none of hookhost's"},
		{"ours", map[string]string{"h.PY": ours, "h.HK": control}, statusOK, "h.PY, calls /run/hookhost/hookhost.sock"},
		{"disabled", map[string]string{"h.PY": ours, "h.HK": "enabled=false\n"}, statusImpossible, "is not enabled"},
		{"older", map[string]string{"h.PY": older, "h.HK": control}, statusDegraded, "another version"},
		{"socket", map[string]string{"h.PY": ours, "h.HK": control, "h.CF": "[shim]\nsocket = \"/run/x\"\n"}, statusDegraded, "calls /run/x; the daemon's socket is"},
		{"both", map[string]string{"h.PY": ours, "h.HK": control, "pbs_cgroups.HK": "order=100\n", "pbs_cgroups.PY": "x"}, statusDegraded, "both confine each job"},
		{"stock disabled", map[string]string{"h.PY": ours, "h.HK": control, "pbs_cgroups.HK": "enabled=false\n"}, statusOK, "h.PY"},
		{"resource unknown", map[string]string{"h.PY": ours, "h.HK": control, "resourcedef": "hpmem type=size flag=hm\n"},
			statusDegraded, "the server does not know it"},
		{"no resource", map[string]string{"h.PY": ours, "h.HK": control, "resourcedef": ""}, statusDegraded, "the server does not know it"},
		{"resource unknown, disabled", map[string]string{"h.PY": ours, "h.HK": "enabled=false\n", "resourcedef": ""}, statusImpossible, "is not enabled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			dir := filepath.Join(home, "mom_priv", "hooks")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if _, there := tt.files["resourcedef"]; !there {
				tt.files["resourcedef"] = "hpmem type=size flag=hm\ndiag_messages type=string\n"
			}
			for name, text := range tt.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := &cli{socket: defaultSocket}
			findings := c.examineOpenPBS(&config.File{OpenPBS: config.OpenPBS{Home: home, Conf: filepath.Join(home, "none.conf")}})
			last := findings[len(findings)-1]
			if last.Status != tt.status || !strings.Contains(last.Found, tt.found) {
				t.Errorf("%+v: want %s, %q", last, tt.status, tt.found)
			}
		})
	}
	c := &cli{socket: defaultSocket}
	if f := c.examineOpenPBS(&config.File{OpenPBS: config.OpenPBS{Home: t.TempDir()}}); f != nil {
		t.Errorf("without pbs_mom: %+v", f)
	}
}
