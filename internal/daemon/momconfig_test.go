package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

func TestConfigurationCountsOfTheMoMThatTheConfigurationNamesAndOfOneThatCameLater(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	link := filepath.Join(other, "link")
	for _, err := range []error{os.MkdirAll(string(openpbs.HooksOf(home)), 0o750), os.Symlink(home, link)} {
		must.NoError(t, err)
	}
	conf := filepath.Join(other, "pbs.conf")
	none, named, linked := "", string(openpbs.HooksOf(home)), string(openpbs.HooksOf(link))
	for _, tt := range []struct {
		name       string
		dir        *string
		conf, home string
		want       string
	}{
		{"the configuration's", &named, "", home, named},
		{"the configuration's by another path", &linked, "", home, linked},
		{"another's", &named, "", other, ""},
		{"of no home that is known", &named, "", "", ""},
		{"before the configuration is in force", nil, "", home, ""},
		{"PBS that came later", &none, "PBS_HOME=" + home + "\n", home, named},
		{"another's beside PBS that came later", &none, "PBS_HOME=" + home + "\n", other, ""},
		{"another's without a pbs.conf", &none, "", other, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must.NoError(t, os.WriteFile(conf, []byte(tt.conf), 0o600))
			c := &configuration{}
			c.file.Store(&config.File{OpenPBS: config.OpenPBS{Conf: conf}})
			if tt.dir != nil {
				c.sent.known, c.sent.dir = true, *tt.dir
			}
			if got := c.hooksOf(tt.home); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
