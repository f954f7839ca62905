package config

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func TestPrivateRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"tmp = true\ntmp_size = '1gb'\nclean_dirs = ['/tmp', '/dev/shm']\nclean_ipc = true": "",

		"tmp_size = '1kb'":          "private.tmp_size = 1kb: want 0kb for half",
		"clean_dirs = ['tmp']":      `private.clean_dirs = "tmp": want directories that everybody`,
		"clean_dirs = ['/']":        `private.clean_dirs = "/": want`,
		"clean_dirs = ['/tmp/../']": `private.clean_dirs = "/tmp/../": want`,
		"clean_dirs = '/tmp'":       `line 2: private.clean_dirs: want a list, such as ["A", "B"]`,

		"dirs = [{path = '/tmp', base = '/scratch'}, {path = '/dev/shm', size = '1gb', options = 'noexec'}]": "",

		"dirs = ['/tmp']": "line 2: private.dirs: want a list of tables",
		"dirs = [{}]":     `private.dirs: path = "": want`,
		"dirs = [{path = '/tmp', bass = '/scratch'}]":    `line 2: unknown key "private.dirs.bass"`,
		"dirs = [\n {path = '/tmp'},\n {sizee = '1gb'}]": `line 4: unknown key "private.dirs.sizee"`,
		"tmp_size = true":                                      `line 2: private.tmp_size = true: want a size, such as "1gb"`,
		"dirs = [{path = '/tmp',\n size = 1.5}]":               `line 3: private.dirs.size = 1.5: want a size`,
		"dirs = [{path = '/tmp', size = '1xb'}]":               "line 2: private.dirs: size 1xb: not a size",
		"dirs = [{path = 'tmp'}]":                              `private.dirs: path = "tmp": want`,
		"dirs = [{path = '/tmp', size = '1kb'}]":               "private.dirs: size = 1kb: want",
		"dirs = [{path = '/tmp', base = 'scratch'}]":           `private.dirs: base = "scratch": want`,
		"dirs = [{path = '/tmp', base = '/b', size = '1gb'}]":  "private.dirs: size = 1048576kb: want",
		"dirs = [{path = '/tmp', base = '/tmp/b'}]":            `private.dirs: base = "/tmp/b": want`,
		"dirs = [{path = '/tmp', options = 'suid'}]":           `private.dirs: options = "suid": want`,
		"dirs = [{path = '/tmp', options = 'mode=777'}]":       `private.dirs: options = "mode=777": want`,
		"dirs = [{path = '/tmp', options = 'noexec size=1'}]":  "private.dirs: options",
		"dirs = [{path = '/tmp'}, {path = '/tmp'}]":            `private.dirs: path = "/tmp": want`,
		"dirs = [{path = '/tmp/job'}, {path = '/tmp'}]":        `private.dirs: path = "/tmp/job": want`,
		"dirs = [{path = '/a', base = '/b'}, {path = '/b/c'}]": "",
	} {
		_, err := Parse([]byte("[private]\n"+text), Here{})
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestPrivateDirectoriesAreShown(t *testing.T) {
	const dirs = "dirs = [{path = '/tmp', base = '/scratch'}, {path = '/dev/shm', size = '1048576kb'}]"
	f, err := Parse([]byte("[private]\n"+dirs+"\n"), Here{})
	must.NoError(t, err)
	shown, err := f.Show("file")
	must.NoError(t, err)
	if !strings.Contains(string(shown), "\n"+dirs+" # file, line 2\n") {
		t.Errorf("%s", shown)
	}
	again, err := Parse(shown, Here{})
	must.NoError(t, err)
	must.Equal(t, "read again", f.Private, again.Private)
}
