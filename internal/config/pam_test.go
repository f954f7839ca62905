package config

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func TestPAMHasItsOwnWordsAndNoOthers(t *testing.T) {
	f, err := Parse([]byte("[pam]\nrestrict = true\nadopt = \"deny\"\nallow = [\"@domain users\", \"x\"]\n"), Here{})
	must.NoError(t, err)
	want := PAM{Restrict: true, Adopt: PAMDeny, Allow: []string{"@domain users", "x"}, Unavailable: PAMDeny}
	must.Equal(t, "pam", want, f.PAM)
	for text, want := range map[string]string{
		`adopt = "oldest"`:       `pam.adopt = "oldest": want off, newest or deny`,
		`unavailable = "ignore"`: `pam.unavailable = "ignore": want deny or allow`,
		`allow = ["a", "@"]`:     `pam.allow = "@": want`,
		`allow = [""]`:           `pam.allow = "": want`,
		`allow = ["a,b"]`:        `pam.allow = "a,b": want`,
		`allow = "root"`:         "allow",
		`restrict = "yes"`:       "restrict",
		`deny = []`:              `unknown key "pam.deny"`,
	} {
		if _, err := Parse([]byte("[pam]\n"+text+"\n"), Here{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if Default().PAM.Off() != true {
		t.Error("the default does something")
	}
}
