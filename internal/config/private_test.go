package config

import (
	"strings"
	"testing"
)

func TestPrivateRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"tmp = true\ntmp_size = '1gb'\nclean_dirs = ['/tmp', '/dev/shm']\nclean_ipc = true": "",

		"tmp_size = '1kb'":          "private.tmp_size = 1kb: want 0kb for half",
		"clean_dirs = ['tmp']":      `private.clean_dirs = "tmp": want clean absolute paths`,
		"clean_dirs = ['/']":        `private.clean_dirs = "/": want`,
		"clean_dirs = ['/tmp/../']": `private.clean_dirs = "/tmp/../": want`,
		"clean_dirs = '/tmp'":       "line 2: private.clean_dirs:",
		"dirs = ['/tmp']":           `line 2: unknown key "private.dirs"`,
	} {
		_, err := Parse([]byte("[private]\n"+text), Here{})
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
