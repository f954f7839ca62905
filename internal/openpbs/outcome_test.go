package openpbs

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func ptr[T any](v T) *T { return &v }

// listing is changes as a golden file has them.
func listing(c *Changes) string {
	var b strings.Builder
	for _, change := range c.List {
		b.WriteString(change.Verb)
		for _, f := range change.Fields {
			fmt.Fprintf(&b, " %q", f)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// allKnown are the custom resources of everything.
var allKnown = Custom{DiagMessages: true, HostUsage: true, "gpupercent": true, "io": true, "text": true}

// everything is an outcome that holds all that an outcome can hold.
func everything(e *Event) *hostapi.Outcome {
	out := &hostapi.Outcome{
		Reject: true, Message: "no room\non this host", OnReject: hostapi.JobActionHold,
		FailAction: []string{"offline_vnodes", "scheduler_restart_cycle"},
		Progname:   ptr("/bin/other"),
		Argv:       []string{"-x", "a\nb"},
		SetEnv: map[string]string{"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2", "HOME": "/root", "TMPDIR": "/tmp",
			"BACK": `a\,b`, "USER": e.Request.Env["USER"]},
		UnsetEnv: []string{"SHELL", "HOME", "PBS_JOBID"},
		ResourcesUsed: hostapi.Resources{"mem": "100kb", "cput": "00:00:02", "walltime": "00:01:00", "ncpus": "2",
			"cpupercent": "55", "gpupercent": "1.5", "io": "12gb", "text": `{"a":"b"}`},
		Diag:      "Cgroup mem limit exceeded",
		JobStderr: []string{"x"}, Notes: []string{"y"},
		Vnodes: map[string]*hostapi.Vnode{
			"pbshost": {ResourcesAvailable: hostapi.Resources{"mem": "1024kb", "ncpus": "2", "vntype": "a,b"},
				State: "offline"},
			"pbshost[0]": {ResourcesAvailable: hostapi.Resources{"mem": "0kb"}, Sharing: "default_shared",
				Comment: ptr("hello")},
		},
		Jobs: map[string]*hostapi.JobUpdate{
			"91.pbshost": {ResourcesUsed: hostapi.Resources{"mem": "7kb", "walltime": "00:00:01"},
				Diag: `he said "no"`},
			"77.pbshost": {ResourcesUsed: hostapi.Resources{"mem": "8kb"}},
			"78.pbshost": {Notes: []string{"z"}},
		},
	}
	return out
}

func TestChangesAreWhatTheEventLets(t *testing.T) {
	files := []string{"host/exechost_startup.in", "host/exechost_periodic_with_jobs.in", "job82/execjob_attach.in",
		"job82/execjob_postsuspend.in",
		"job82/execjob_preresume.in", "qdel83/execjob_preterm.in", "abort86/execjob_abort.in",
		"twochunk92/execjob_launch.in"}
	for _, event := range []string{"begin", "prologue", "launch", "epilogue", "end"} {
		files = append(files, "job91_shimonly/execjob_"+event+".in")
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			e, err := Decode(read(t, filepath.Join(captured, file)))
			must.NoError(t, err)
			c := e.Changes(everything(e), allKnown, Offlining{
				States: map[string]map[string]string{"cgroup": {"pbshost": "offline"}},
				Faults: []Fault{{Hook: "disk", Err: errors.New("x"), Unavailable: true}}, Return: true})
			golden(t, filepath.Join("changes", strings.ReplaceAll(file, "/", "_")+".txt"), []byte(listing(c)))
			back, err := parseChanges(c.Fields())
			if d := cmp.Diff(c, back); err != nil || d != "" {
				t.Errorf("%v (-wrote +read):\n%s", err, d)
			}
			if _, ok := e.Output(c); ok &&
				!slices.Contains([]hostapi.Event{hostapi.EventAttach, hostapi.EventResize}, e.Request.Event) {
				t.Error("an outcome with vnodes cannot be written into OUT")
			}
		})
	}
}

func TestChangesOfVnodes(t *testing.T) {
	set := func(attribute, value string) Change {
		return Change{verbVnode, []string{"pbshost", attribute, "", typeString, value}}
	}
	for name, tt := range map[string]struct {
		out  hostapi.Vnode
		want []Change
	}{
		"with a comment of the hook's": {hostapi.Vnode{State: "offline", Comment: ptr("disk")},
			[]Change{set("comment", "disk"), set("state", "offline")}},
		"a comment alone": {hostapi.Vnode{Comment: ptr("ask Bob")}, []Change{set("comment", "ask Bob")}},
	} {
		e := &Event{Hook: "shim", Request: &hostapi.Request{Event: hostapi.EventPeriodic, Node: "pbshost"}}
		out := &hostapi.Outcome{Vnodes: map[string]*hostapi.Vnode{"pbshost": &tt.out, "n\"1": {State: "offline"}}}
		want := &Changes{List: append(tt.want, Change{Verb: verbAccept, Fields: nil})}
		must.Equal(t, name, want, e.Changes(out, allKnown, Offlining{}))
	}
}

// Vnodes of this host are the natural one, those in brackets, and what the job has on this host by
// exec_host2. The list of a job can have those of other hosts.
func TestOwnVnodes(t *testing.T) {
	text := in(t, "execjob_prologue", "(pbshost:ncpus=1:mem=102400kb)", "(blade:ncpus=1)+(other:ncpus=1)",
		"exec_host2=pbshost:15002/0", "exec_host2=pbshost:15002/0+other:15002/0",
		"pbs.get_local_nodename", `pbs.event().vnode_list["blade"].resources_assigned[ncpus]=1
pbs.event().vnode_list["pbshost[0]"].resources_assigned[ncpus]=1
pbs.event().vnode_list["pbshost[12]"].resources_assigned[ncpus]=1
pbs.event().vnode_list["pbshost2[0]"].resources_assigned[ncpus]=1
pbs.event().vnode_list["other"].resources_assigned[ncpus]=1
pbs.event().job.failed_mom_list=other
pbs.event().job.succeeded_mom_list=pbshost
pbs.event().vnode_list_fail["other"].resources_assigned[ncpus]=1
pbs.get_local_nodename`)
	e, err := Decode(text)
	must.NoError(t, err)
	c := e.Changes(&hostapi.Outcome{Reject: true}, allKnown,
		Offlining{Faults: []Fault{{Hook: "h", Err: errors.New("x")}}})
	var got []string
	for _, change := range c.List {
		if change.Verb == verbOffline {
			got = append(got, change.Fields[0])
		}
	}
	must.Equal(t, "", []string{"blade", "pbshost", "pbshost[0]", "pbshost[12]"}, got)
}

// The server's answers to the caller stand behind MoM's lines.
func TestAppendedVnodes(t *testing.T) {
	text := append(read(t, filepath.Join(captured, "host", "exechost_periodic_idle.in")), []byte(
		"pbs.event().vnode_list[\"pbshost\"].state=offline,down\npbs.event().vnode_list[\"pbshost\"].comment=it's "+
			"\"x\", a=b\n"+
			"pbs.event().vnode_list[\"pbshost[1]\"].state=free\n")...)
	e, err := Decode(text)
	must.NoError(t, err)
	v := e.Request.VnodeList
	if v["pbshost"].State != "offline,down" || v["pbshost"].Comment == nil ||
		*v["pbshost"].Comment != `it's "x", a=b` || v["pbshost[1]"].State != "free" {
		t.Errorf("vnodes %+v", v)
	}
}

func TestFailedEventIsAnsweredByItsKind(t *testing.T) {
	for _, event := range hostapi.Events() {
		e := &Event{Request: &hostapi.Request{Event: event, Node: "n1", Job: &hostapi.Job{ID: "1.x"}},
			progname: "/bin/sh"}
		c := e.Late("took\ntoo long")
		want := []Change{{verbLog, []string{"error", "took too long"}}}
		switch event {
		case hostapi.EventBegin, hostapi.EventPrologue, hostapi.EventLaunch:
			want = append(want, Change{Verb: verbRerun}, Change{verbReject, []string{"took too long"}})
		case hostapi.EventAttach, hostapi.EventResize, hostapi.EventPreresume:
			want = append(want, Change{verbReject, []string{"took too long"}})
		default:
			want = append(want, Change{Verb: verbAccept})
		}
		must.Equal(t, string(event), want, c.List)
		if _, ok := e.Output(c); ok {
			t.Errorf("%s: an error is logged by the pbs module only", event)
		}
		if out, ok := e.Output(e.Failed("", "", true, "no")); !ok || !strings.HasPrefix(string(out),
			"pbs.event().reject=True\npbs.event().accept=False\npbs.event().reject_msg=no\n") {
			t.Errorf("%s: %v %q", event, ok, out)
		}
	}
}

func TestOutputIsReadByMoM(t *testing.T) {
	launch, err := Decode(in(t, "execjob_launch"))
	must.NoError(t, err)
	out, ok := launch.Output(launch.Changes(&hostapi.Outcome{
		Reject: true, OnReject: hostapi.JobActionRerun, Message: "no\nroom",
		Progname: ptr("/bin/\"\"\""), Argv: []string{"", " x", "a\nb\n", `"""`, `\,`, "\xff"},
		SetEnv:   map[string]string{"NEW": `a,b\c"'`, "HOME": "\xff\xfe", "USER": "pbstest"},
		UnsetEnv: []string{"SHELL", "NEVER"},
	}, allKnown, Offlining{}))
	if !ok {
		t.Fatal("cannot be written")
	}
	mom := momRead(out)
	values := map[string]string{"pbs.event().reject": "True", "pbs.event().accept": "False",
		"pbs.event().reject_msg": "no room",
		"pbs.event().progname":   `/bin/"""`, "pbs.event().job._rerun": "True"}
	must.Equal(t, "values", values, mom.values)
	must.Equal(t, "arguments", []string{`/bin/"""`, "", " x", "a\nb\n", `"""`, `\,`, "\xff"}, mom.argv)
	var env []string
	for _, v := range environ(launch) {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "HOME":
			v = "HOME=\xff\xfe"
		case "SHELL":
			continue
		}
		env = append(env, v)
	}
	must.Equal(t, "environment", append(env, `NEW=a,b\c"'`), mom.env)

	periodic, err := Decode(read(t, filepath.Join(captured, "host", "exechost_periodic_with_jobs.in")))
	must.NoError(t, err)
	periodic.Request.JobList["91.pbshost"].ResourcesUsed = hostapi.Resources{DiagMessages: `{"pbshost":"x"}`}
	out, ok = periodic.Output(periodic.Changes(&hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{"91.pbshost": {
		ResourcesUsed: hostapi.Resources{"mem": "7kb", "cput": "00:00:09"}, Diag: "x"}}}, allKnown, Offlining{}))
	const want = `pbs.event().accept=True
pbs.event().reject=False
pbs.event().job_list["91.pbshost"].resources_used[cput,long]=00:00:09
pbs.event().job_list["91.pbshost"].resources_used[diag_messages,string]={"pbshost":"x"}
pbs.event().job_list["91.pbshost"].resources_used[mem,size]=7kb
`
	if d := cmp.Diff(want, string(out)); !ok || d != "" {
		t.Errorf("%v (-want +got):\n%s", ok, d)
	}

	for what, argv := range map[string][]string{"a newline first": {"\nx"},
		"quotes at the end of a line": {"x\"\"\"\ny"}} {
		if _, ok := launch.Output(launch.Changes(&hostapi.Outcome{Argv: argv}, allKnown, Offlining{})); ok {
			t.Errorf("%s: MoM does not read that", what)
		}
	}
}

func TestAskIsRead(t *testing.T) {
	c, err := parseChanges(Ask().Fields())
	if d := cmp.Diff(Ask(), c); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
}
