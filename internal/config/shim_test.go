package config

import (
	"strings"
	"testing"
)

func TestShimSettingThatTheShimReadsOtherwiseIsRefused(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"[shim]\nwait = \"9s\" # so\noffline = false#so\n\tunconfined = true\n[memory]\n", ""},
		{"[shim]\r\nsocket = \"/run/x#y\"\r\n", ""},
		{"[shim]\nwait = \"1m\"", `line 2: shim.wait = "1m": want whole seconds, at most "59s"`},
		{"[shim]\nwait = \"60s\"", `line 2: shim.wait = "60s": want whole seconds`},
		{"[shim]\nwait = 5", "line 2: shim.wait = 5: want a duration"},
		{"shim.wait = \"9s\"", "line 1: shim.wait = \"9s\": want a line KEY = \"VALUE\""},
		{"shim = { offline = false }", "line 1: shim.offline = false: want a line"},
		{"\n[ shim ]\nwait = \"9s\"", "line 3: shim.wait"},
		{"[shim] # mine\nwait = \"9s\"", "line 2: shim.wait"},
		{"[\"shim\"]\nwait = \"9s\"", "line 2: shim.wait"},
		{"[shim]\n\"wait\" = \"9s\"", "line 2: shim.wait"},
		{"[shim]\nWait = \"9s\"", `line 2: unknown key "shim.Wait"`},
		{"[shim]\nwaite = \"9s\"", `line 2: unknown key "shim.waite"`},
		{"[shim]\nwait = \"\"\"9s\"\"\"", "line 2: shim.wait"},
		{"[shim]\nwait = \"\\u0039s\"", "line 2: shim.wait"},
		{"[shim]\noffline = \"host in: n1\"", `line 2: shim.offline = "host in: n1": want true or false`},
		{"[shim]\nsocket = \"run/x\"", "line 2: shim.socket"},
		{"[shim]\nsocket = \"/a b\"", "line 2: shim.socket"},
		{"[shim]\nsocket = true", "line 2: shim.socket"},
		{"[shim]\nunconfined = \"host in: n1\"", `line 2: shim.unconfined = "host in: n1": want true or false`},
		{"[shim]\nexecjob_begin = \"accept\"", `line 2: unknown key "shim.execjob_begin"`},
		{"[shim]\nsocket = \"/" + strings.Repeat("x", 107) + "\"", "line 2: shim.socket"},
		{"[[device]]\nresource='r'\npaths=['/dev/x']\nmodel = '''\n[shim]\nwait = '9s'\n'''",
			"a text of several lines looks like the table [shim]"},
	} {
		_, err := Parse([]byte(tt.text), Here{})
		if (tt.want == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}
