package config

import (
	"strings"
	"testing"
)

func TestPrivateRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"tmp = true\ntmp_size = '1gb'": "",
		"tmp_size = '1kb'":             "private.tmp_size = 1kb: want 0kb for half",
		"dirs = ['/tmp']":              `line 2: unknown key "private.dirs"`,
	} {
		_, err := Parse([]byte("[private]\n"+text), Here{})
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
