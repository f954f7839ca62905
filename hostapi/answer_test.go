package hostapi

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzAnswerOfAHook reads what a hook's program sends. It is checked before anybody uses it, and
// what passes the check passes it again.
func FuzzAnswerOfAHook(f *testing.F) {
	for _, text := range []string{`{}`, `null`, `{"reject":true,"message":"no","job_action":"hold"}`,
		`{"set_env":{"A":"1"},"argv":["a"]}`,
		`{"usage":{"ncpus":1,"series":{"times":[1,2],"columns":{"cpu":[0.5,null]}},"devices":[{"series":{"times":[3]}}]}}`,
		`{"jobs":{"1.a":{"state":{"x":1},"call_again":5,"strays":[{"pid":7}],"notes":["a"],"job_stderr":["b"]}}}`,
		`{"vnodes":{"n1[0]":{"state":"offline","comment":"c"}},"walltime_limit":60000000000,"attach_env":{"B":"2"}}`,
		`{"job_stderr":["a\u0000"],"notes":["b\n"],"signal_sisters":"TERM","walltime_limit":-1}`} {
		for i := range rows {
			f.Add(uint8(i), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, event uint8, text []byte) {
		e := rows[int(event)%len(rows)].event
		out := new(Outcome)
		if json.Unmarshal(text, out) == nil && out.Check(e) == nil {
			checkEnvironment(t, out.SetEnv)
			checkEnvironment(t, out.AttachEnv)
			again := new(Outcome)
			if b, err := json.Marshal(out); err != nil || json.Unmarshal(b, again) != nil || again.Check(e) != nil {
				t.Errorf("%s: %s passes and is %s, which does not: %v", e, text, b, err)
			}
		}
	})
}

func checkEnvironment(t *testing.T, env map[string]string) {
	t.Helper()
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			t.Errorf("variable %q=%q", name, value)
		}
	}
}
