package openpbs

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
)

func FuzzDecode(f *testing.F) {
	for _, file := range capturedFiles(f, ".in") {
		f.Add(read(f, filepath.Join(captured, file)))
	}
	f.Add([]byte("pbs.event().job.id=1\npbs.event().type=execjob_launch"))
	f.Add([]byte("pbs.event().type=execjob_launch\npbs.event().job.id=1\npbs.event().alarm=1\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		e, err := Decode(in)
		if err != nil {
			if e != nil || strings.ContainsAny(err.Error(), "\n") || len(err.Error()) > 4*maxLine {
				t.Fatalf("%v, %v", e, err)
			}
			return
		}
		checkEvent(t, e)
	})
}

func FuzzDecodeDump(f *testing.F) {
	for _, file := range capturedFiles(f, ".json") {
		f.Add(read(f, filepath.Join(captured, file)))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if e, err := DecodeDump(in); err == nil {
			checkEvent(t, e)
		}
	})
}

// checkEvent looks at what is true of every event that was taken: it is one of hostapi's, and whatever hooks make of it MoM can read.
func checkEvent(t *testing.T, e *Event) {
	t.Helper()
	req := e.Request
	if (req.Job != nil) != req.Event.ForJob() || req.Job != nil && hostapi.CheckJobID(req.Job.ID) != nil {
		t.Fatalf("job %+v", req.Job)
	}
	b, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	if !utf8.Valid(b) {
		t.Fatal("not UTF-8")
	}
	if req.Event != hostapi.EventAttach || req.PID > 0 {
		if _, ignored, err := hostapi.DecodeRequest(string(req.Event), strings.NewReader(string(b)), 0); err != nil || len(ignored) > 0 {
			t.Fatalf("hostapi takes it otherwise: %v %v", ignored, err)
		}
	}
	c := e.Changes(everything(e), allKnown)
	if back, err := parseChanges(c.Fields()); err != nil || cmp.Diff(c, back) != "" {
		t.Fatalf("changes: %v", err)
	}
	accept := e.Changes(nil, allKnown)
	if out, ok := e.Output(accept); ok {
		mom := momRead(out)
		if mom.failed || mom.values["pbs.event().accept"] != "True" || len(mom.argv) != len(e.argv) || e.progname != "" && mom.values["pbs.event().progname"] != e.progname {
			t.Fatalf("MoM reads %+v of %q", mom, out)
		}
		if !slices.Equal(mom.argv, e.argv) {
			t.Fatalf("MoM reads %q of %q", mom.argv, e.argv)
		}
	}
}

// Whatever environment MoM has, a launch that changes nothing gives it back, and one that adds a variable adds that one. Where it cannot (a
// backslash before a comma, a name that separates), MoM reads what it would read of pbs_python's.
func FuzzEnv(f *testing.F) {
	f.Add("A=1\x00B=2", "C", "3")
	f.Add("PATH=/bin:/usr/bin\x00COMMA=a,b\x00BACK=a\\b\\\\\x00LAST=it's \"x\"", "CUDA_VISIBLE_DEVICES", "GPU-1,GPU-2")
	f.Add("A='\x00B=\"\x00C=x\"\"\"\ny\x00D=\"\"\"", "E", "\"\"\"")
	f.Add("A=\\,\x00B=\xff\xfe\n\x00=\x00X", "F", "\\")
	f.Add("\"\n", "0", "0")
	f.Add("A=\"\"\"\npbs.event().job.id=1.x\n\x00B=2", "A", "")
	f.Fuzz(func(t *testing.T, list, name, value string) {
		var env []string
		for _, v := range strings.Split(list, "\x00") {
			if v != "" {
				env = append(env, v)
			}
		}
		passes := true
		for _, v := range env {
			name, value, ok := strings.Cut(v, "=")
			passes = passes && ok && newVariable(name, value).passes()
		}
		text := strings.Join([]string{"pbs.event().progname=/bin/sh", "pbs.event().env=\"\"\"" + momFormat(env) + "\"\"\"", "pbs.event().job.id=1.x",
			"pbs.event().job.euser=u", "pbs.event().type=execjob_launch", "pbs.event().hook_name=h", "pbs.event().alarm=30", ""}, "\n")
		e, err := Decode([]byte(text))
		if strings.Contains(list, "pbs.") { // may be refused
			if err != nil {
				return
			}
		} else if err != nil {
			t.Fatal(err)
		}
		out, ok := e.Output(e.Changes(nil, allKnown))
		if !ok {
			if passes && !endsAtOnce(list) {
				t.Fatal("cannot be written")
			}
			return
		}
		if passes {
			if got := environ(e); !slices.Equal(got, env) {
				t.Fatalf("read %q, MoM had %q", got, env)
			}
			if got := momRead(out).env; !slices.Equal(got, env) {
				t.Fatalf("MoM reads %q, had %q", got, env)
			}
		} else if raw := momFormat(env); !strings.Contains(raw, "\"\"\"\n") && !slices.Equal(momRead(out).env, momSplit(raw)) {
			t.Fatalf("MoM reads %q, of pbs_python's %q", momRead(out).env, momSplit(raw))
		}

		v := newVariable(name, value)
		c := e.Changes(&hostapi.Outcome{SetEnv: map[string]string{name: value}}, allKnown)
		if passes && v.passes() && utf8.ValidString(list) && utf8.ValidString(name) && utf8.ValidString(value) {
			out, ok := e.Output(c)
			got := momRead(out).env
			if !ok || !slices.Contains(got, name+"="+value) && !slices.Contains(env, name+"="+value) {
				t.Fatalf("%v, MoM reads %q, %s=%s is not there", ok, got, name, value)
			}
			for _, v := range env {
				if n, _, _ := strings.Cut(v, "="); n != name && !slices.Contains(got, v) {
					t.Fatalf("%q is gone: %q", v, got)
				}
			}
		} else if !v.passes() && c.has(verbSetenv) {
			t.Fatalf("%q=%q is said to MoM, who reads it otherwise", name, value)
		}
	})
}
