package openpbs

import (
	"maps"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// A control file holds what differs from the defaults, and nothing of a hook for which nothing was
// set.
func TestParseControl(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		set        map[string]string
	}{
		{"nothing set", "hook_name=h\n", nil},
		{"as registered",
			"hook_name=h\nfail_action=offline_vnodes\nevent=execjob_begin,execjob_end\norder=100\nalarm=90\n",
			map[string]string{"fail_action": "offline_vnodes", "event": "execjob_begin,execjob_end", "order": "100",
				"alarm": "90"}},
		{"disabled, to be deleted", "hook_name=h\nenabled=false\nuser=pbsuser\npending_delete=1\n",
			map[string]string{"enabled": "false", "user": "pbsuser", "pending_delete": "1"}},
		{"comments and blanks", "# alarm=1\n\n  alarm=5\nrubbish\n", map[string]string{"alarm": "5"}},
		{"no end of line", "alarm=5", map[string]string{"alarm": "5"}},
	} {
		want := map[string]string{"type": "site", "enabled": "true", "event": "", "user": "pbsadmin", "alarm": "30",
			"freq": "120", "order": "1",
			"debug": "false", "fail_action": "none"}
		maps.Copy(want, tt.set)
		h := ParseControl("h", []byte(tt.text))
		must.Equal(t, tt.name, &Hook{Name: "h", Attributes: want}, h)
		if h.Enabled() != (want["enabled"] == "true") {
			t.Errorf("%s: enabled %t", tt.name, h.Enabled())
		}
	}
}
