package pbs

import "testing"

func TestConfGivesMoMsHome(t *testing.T) {
	for _, tt := range []struct{ name, text, home string }{
		{"plain", "PBS_SERVER=head\nPBS_HOME=/var/spool/pbs\nPBS_EXEC=/opt/pbs\n", "/var/spool/pbs"},
		{"MoM's own", "PBS_HOME=/var/spool/pbs\nPBS_MOM_HOME=/local/pbs", "/local/pbs"},
		{"blanks, comments, twice", "  # PBS_MOM_HOME=/old\n\n  PBS_HOME=/a\r\nPBS_HOME=/b=c  \nnonsense\n", "/b=c"},
		{"none", "PBS_SERVER=head", ""},
	} {
		if got := MoMHome(Conf(tt.text)); got != tt.home {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.home)
		}
	}
}
