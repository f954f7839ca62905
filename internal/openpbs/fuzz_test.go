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
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
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

// Any text that a user puts into a job has one of two results. An event that sets up is refused, or
// the job has what it has without the text. Exceptions are bounds that the job puts on itself and
// words about itself.
func FuzzTextOfUser(f *testing.F) {
	places := []string{"Job_Name=envjob", "Error_Path=pbshost:/home/pbstest/envjob.e91",
		"Output_Path=pbshost:/home/pbstest/envjob.o91",
		"Resource_List[place]=free", "Variable_List=\"\"\"PBS_O_HOME=/home/pbstest", "project=_pbs_project_default",
		"Submit_Host=pbshost"}
	for place := range places {
		f.Add(place, "a\npbs.event().job.Resource_List[vmem]=10gb\npbs.event().job.comment=x")
		f.Add(place,
			"\"\"\"\npbs.event().job.Resource_List[ngpus]=2\npbs.event().job.id=1.x\npbs.event().job.euser=root")
		f.Add(place,
			"\npbs.event().job._stderr_file=x\npbs.event().vnode_list[\"a\"].sharing=x\npbs.event().type=execjob_end")
		f.Add(place,
			"\npbs.event().job.schedselect=1:ngpus=8\npbs.event().job.exec_vnode=(pbshost:ncpus=64)\n"+
				"pbs.get_local_nodename()=b")
	}
	f.Fuzz(func(t *testing.T, place int, text string) {
		if place < 0 || place >= len(places) || strings.Contains(text, "\x00") {
			return
		}
		for _, event := range []string{"execjob_begin", "execjob_launch", "execjob_epilogue"} {
			want, err := Decode(in(t, event))
			must.NoError(t, err)
			got, err := Decode(in(t, event, places[place], places[place]+text))
			if err != nil {
				if want.Request.Event.Refusable() {
					continue
				}
				t.Fatalf("an event that ends a job is refused: %v", err)
			}
			a, b := want.Request, got.Request
			if a.Event != b.Event || a.Node != b.Node || a.Job.ID != b.Job.ID || want.Alarm != got.Alarm ||
				want.Hook != got.Hook {
				t.Fatalf("%s %s on %s: %+v", b.Event, b.Job.ID, b.Node, got)
			}
			if !a.Event.Refusable() {
				continue
			}
			if a.Job.Owner != b.Job.Owner || a.Job.ExecVnode != b.Job.ExecVnode || a.Job.ExecHost2 != b.Job.ExecHost2 ||
				a.Job.Schedselect != b.Job.Schedselect {
				t.Fatalf("%+v\nwithout the text %+v", b.Job, a.Job)
			}
			for name, value := range b.Job.ResourceList {
				malformed := pbs.CheckResources(map[string]string{name: value}) != nil
				if a.Job.ResourceList[name] != value && !malformed && name != "place" &&
					!slices.Contains(bounds, name) && !strings.HasPrefix(name, rlimitPrefix) {
					t.Fatalf("Resource_List[%s]=%s", name, value)
				}
			}
			if diff := cmp.Diff(a.VnodeList, b.VnodeList); diff != "" {
				t.Fatalf("vnodes: %s", diff)
			}
		}
	})
}

// checkEvent asserts what is true of every event that was accepted. The event is one of hostapi's,
// and MoM can read whatever hooks make of it.
func checkEvent(t *testing.T, e *Event) {
	t.Helper()
	req := e.Request
	if (req.Job != nil) != req.Event.ForJob() || req.Job != nil && hostapi.CheckJobID(req.Job.ID) != nil {
		t.Fatalf("job %+v", req.Job)
	}
	b, err := json.Marshal(req)
	must.NoError(t, err)
	if !utf8.Valid(b) {
		t.Fatal("not UTF-8")
	}
	if req.Event != hostapi.EventAttach || req.PID > 0 {
		if _, err := hostapi.DecodeRequest(string(req.Event), strings.NewReader(string(b)), 0); err != nil {
			t.Fatalf("hostapi refuses it: %v", err)
		}
	}
	c := e.Changes(everything(e), allKnown, Offlining{})
	if back, err := parseChanges(c.Fields()); err != nil || cmp.Diff(c, back) != "" {
		t.Fatalf("changes: %v", err)
	}
	accept := e.Changes(nil, allKnown, Offlining{})
	if out, ok := e.Output(accept); ok {
		mom := momRead(out)
		if mom.failed || mom.values["pbs.event().accept"] != "True" || len(mom.argv) != len(e.argv) ||
			e.progname != "" && mom.values["pbs.event().progname"] != e.progname {
			t.Fatalf("MoM reads %+v of %q", mom, out)
		}
		if !slices.Equal(mom.argv, e.argv) {
			t.Fatalf("MoM reads %q of %q", mom.argv, e.argv)
		}
	}
}

// A launch that changes nothing gives any environment of MoM's back, and a launch that adds a
// variable adds that one. MoM reads what it would read of pbs_python's where that cannot be (a
// backslash before a comma, a name that separates).
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
		text := strings.Join([]string{"pbs.event().progname=/bin/sh",
			"pbs.event().env=\"\"\"" + momFormat(env) + "\"\"\"", "pbs.event().job.id=1.x",
			"pbs.event().job.euser=u", "pbs.event().type=execjob_launch", "pbs.event().hook_name=h",
			"pbs.event().alarm=30", ""}, "\n")
		e, err := Decode([]byte(text))
		if strings.Contains(list, "pbs.") { // may be refused
			if err != nil {
				return
			}
		} else if err != nil {
			t.Fatal(err)
		}
		out, ok := e.Output(e.Changes(nil, allKnown, Offlining{}))
		if !ok {
			if passes && !endsAtOnce(momFormat(env)) {
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
		} else if raw := momFormat(env); !strings.Contains(raw, "\"\"\"\n") &&
			!slices.Equal(momRead(out).env, momSplit(raw)) {
			t.Fatalf("MoM reads %q, of pbs_python's %q", momRead(out).env, momSplit(raw))
		}

		v := newVariable(name, value)
		c := e.Changes(&hostapi.Outcome{SetEnv: map[string]string{name: value}}, allKnown, Offlining{})
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
