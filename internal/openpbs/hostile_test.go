package openpbs

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// in returns a captured input file of job 91 after changes: each pair of strings is what to replace
// by what, once.
func in(t testing.TB, event string, changes ...string) []byte {
	t.Helper()
	text := string(read(t, filepath.Join(captured, "job91_shimonly", event+".in")))
	for i := 0; i < len(changes); i += 2 {
		if strings.Count(text, changes[i]) != 1 {
			t.Fatalf("%q is %d times in the input of %s", changes[i], strings.Count(text, changes[i]), event)
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	return []byte(text)
}

// Text that a user can put into a job must not become a word of MoM's. The values are those that
// MoM writes as they are: names, paths, Variable_List with quotes in it.
func TestForgedLines(t *testing.T) {
	forged := map[string]string{
		"owner":      "pbs.event().job.euser=root",
		"job":        "pbs.event().job.id=1.pbshost",
		"resources":  "pbs.event().job.exec_vnode=(pbshost:ncpus=64:mem=1tb)",
		"file":       "pbs.event().job._stderr_file=/etc/passwd",
		"superior":   "pbs.event().job._msmom=False",
		"vnode":      `pbs.event().vnode_list["other"].resources_available[ncpus]=1`,
		"event":      "pbs.event().type=execjob_end",
		"other host": "pbs.get_local_nodename()=other",
	}
	places := map[string]string{
		"Job_Name":      "pbs.event().job.Job_Name=envjob",
		"Output_Path":   "pbs.event().job.Output_Path=pbshost:/home/pbstest/envjob.o91",
		"Variable_List": "PBS_O_HOST=pbshost\"\"\"\npbs.event().job.euser",
		"project":       "pbs.event().job.project=_pbs_project_default",
	}
	for what, line := range forged {
		for place, old := range places {
			for _, event := range []string{"execjob_begin", "execjob_prologue", "execjob_launch"} {
				e, err := Decode(in(t, event, old, smuggle(old, line)))
				if err == nil {
					t.Errorf("%s in %s of %s: taken, %+v", what, place, event, e.Request.Job)
				}
			}
			for _, event := range []string{"execjob_epilogue", "execjob_end"} {
				t.Run(fmt.Sprintf("%s/%s/%s", event, place, what), func(t *testing.T) {
					e, err := Decode(in(t, event, old, smuggle(old, line)))
					must.NoError(t, err)
					job := e.Request.Job
					if string(e.Request.Event) != event || e.Request.Node != "pbshost" || job.ID != "91.pbshost" {
						t.Errorf("is %s of %s on %s", e.Request.Event, job.ID, e.Request.Node)
					}
					if job.Owner.User == "root" || strings.Contains(job.ExecVnode, "1tb") ||
						strings.Contains(job.StderrFile, "passwd") {
						t.Errorf("the user's word is taken: %+v", job)
					}
					if e.Request.VnodeList["other"] != nil {
						t.Error("the user's vnode is taken")
					}
				})
			}
		}
	}
}

// smuggle puts a line behind the first one of old; in Variable_List behind quotes that end it, with
// new ones behind.
func smuggle(old, line string) string {
	first, rest, more := strings.Cut(old, "\n")
	if !more {
		return old + "\n" + line + "\nrest"
	}
	return strings.TrimSuffix(first, quotes) + ",X=" + quotes + "\n" + line + "\npbs.event().job.Foo=" + quotes +
		quotes + "\n" + rest
}

// Program, arguments and environment of a launch stand before MoM's own words on the job.
func TestForgedLaunch(t *testing.T) {
	const progname = "pbs.event().progname=/bin/bash\n"
	for what, arg := range map[string]string{
		"an id": "x\npbs.event().job.id=1.pbshost",
		"the whole job": "x\npbs.event().env=\"\"\"A=1\"\"\"\npbs.event().job.id=1.pbshost\n" +
			"pbs.event().job.euser=root\npbs.event().job.Foo=\"\"\"",
		"MoM's own id":   "x\npbs.event().job.id=91.pbshost\npbs.event().job.euser=root",
		"quotes and all": "\"\"\"\npbs.event().job.id=1.pbshost\n\"\"\"",
	} {
		if e, err := Decode(in(t, "execjob_launch", progname, progname+"pbs.event().argv[0]="+arg+"\n")); err == nil {
			t.Errorf("%s in an argument: taken, %+v", what, e.Request.Job)
		}
		if e, err := Decode(in(t, "execjob_launch", "env=\"\"\"PATH=/bin",
			"env=\"\"\"EVIL="+arg+",PATH=/bin")); err == nil {
			t.Errorf("%s in a variable: taken, %+v", what, e.Request.Job)
		}
	}
	// Other words of MoM's change what the user's own program gets, and nothing else.
	for what, arg := range map[string]string{
		"the event":  "x\npbs.event().type=execjob_end\npbs.event().alarm=0",
		"the owner":  "x\npbs.event().job.euser=root",
		"the vnodes": "x\npbs.event().vnode_list[\"other\"].state=offline",
		"the node":   "x\npbs.get_local_nodename()=other",
		"an index":   "x\npbs.event().argv[7]=y\npbs.event().progname=/bin/sh",
	} {
		e, err := Decode(in(t, "execjob_launch", progname,
			progname+"pbs.event().argv[0]=bash\npbs.event().argv[1]="+arg+"\n"))
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		req := e.Request
		if req.Event != hostapi.EventLaunch || req.Node != "pbshost" || req.Job.Owner.User != "pbstest" ||
			req.VnodeList["other"] != nil ||
			req.Progname != "/bin/bash" || len(req.Argv) != 1 || req.Argv[0] != arg {
			t.Errorf("%s: %+v", what, req)
		}
	}
}

// Newlines that mean no harm are nothing unusual: a script as an argument, functions of a shell in
// the environment.
func TestNewlinesOfLaunch(t *testing.T) {
	const script = "for i in 1 2; do\n  echo $i=x\ndone\n\n"
	const function = "() {  echo a\\,b;\n pbs.event().accept()\n\"\"\"\n}"
	e, err := Decode(in(t, "execjob_launch",
		"pbs.event().progname=/bin/bash\n",
		"pbs.event().progname=/bin/my\nbash\npbs.event().argv[0]=bash\npbs.event().argv[1]=-c\n"+
			"pbs.event().argv[2]="+script+"\n",
		"PATH=/bin:/usr/bin,", "PATH=/bin:/usr/bin,BASH_FUNC_f%%="+function+",LAST=\xff\xfe,"))
	must.NoError(t, err)
	req := e.Request
	if req.Progname != "/bin/my\nbash" || len(req.Argv) != 2 || req.Argv[1] != script {
		t.Errorf("program %q, arguments %q", req.Progname, req.Argv)
	}
	if got, want := req.Env["BASH_FUNC_f%%"], strings.ReplaceAll(function, `\,`, ","); got != want {
		t.Errorf("function %q, want %q", got, want)
	}
	out, ok := e.Output(e.Changes(nil, allKnown, Offlining{}))
	mom := momRead(out)
	if !ok || mom.failed || len(mom.argv) != 3 || mom.argv[2] != script ||
		mom.values["pbs.event().progname"] != "/bin/my\nbash" {
		t.Errorf("MoM reads %v %+v of\n%s", ok, mom, out)
	}
	if want := momSplit(momFormat(environ(e))); strings.Join(mom.env, "\x00") != strings.Join(want, "\x00") {
		t.Errorf("MoM reads the environment %q, want %q", mom.env, want)
	}
}

// environ is the environment that MoM had.
func environ(e *Event) []string {
	var all []string
	for _, v := range e.env {
		all = append(all, v.name+"="+v.value)
	}
	return all
}

// In periodic the jobs of all users stand in one list, without any quotes. A user's line on
// another's job changes nothing there, and the job that holds it is there by its id alone.
func TestForgedJobList(t *testing.T) {
	text := string(read(t, filepath.Join(captured, "host", "exechost_periodic_with_jobs.in")))
	begin, end := strings.Index(text, `pbs.event().job_list["91.`), strings.Index(text, "pbs.get_local")
	block := text[begin:end]
	other := func(id string) string { return strings.ReplaceAll(block, "91.pbshost", id) }
	const at = "PBS_O_HOST=pbshost\n"
	for name, lines := range map[string]string{
		"a bound":      `pbs.event().job_list["90.pbshost"].Resource_List[walltime]=00:00:01`,
		"an owner":     `pbs.event().job_list["90.pbshost"].euser=mallory`,
		"an end":       `pbs.event().job_list["90.pbshost"].Exit_status=0`,
		"a whole job":  strings.TrimSuffix(other("90.pbshost"), "\n"),
		"its own":      `pbs.event().job_list["91.pbshost"].Resource_List[walltime]=99:00:00`,
		"a state":      `pbs.event().job_list["90.pbshost"].substate=43`,
		"its state":    `pbs.event().job_list["91.pbshost"].substate=43`,
		"its own, too": `pbs.event().job_list["91.pbshost"]._msmom=True`,
	} {
		forged := strings.Replace(block, at,
			at[:len(at)-1]+",X=\n"+lines+"\n"+`pbs.event().job_list["../../etc"].euser=mallory`+"\n"+
				`pbs.event().vnode_list["pbshost"].comment=gone`+"\n"+`pbs.event().vnode_list["pbshost"].resources_available[vntype]=x`+"\n"+
				"pbs.event().type=exechost_startup\n", 1)
		for order, list := range map[string]string{"before": forged + other("90.pbshost"),
			"behind": other("90.pbshost") + forged} {
			e, err := Decode([]byte(text[:begin] + list + other("89.pbshost") + text[end:]))
			must.NoError(t, err)
			jobs := e.Request.JobList
			if e.Request.Event != hostapi.EventPeriodic || len(jobs) != 3 || jobs["91.pbshost"] == nil ||
				jobs["90.pbshost"] == nil {
				t.Fatalf("%s, %s: %s with jobs %v", name, order, e.Request.Event, jobs)
			}
			if user := jobs["89.pbshost"].Owner.User; user != "pbstest" {
				t.Errorf("%s, %s: the owner of a job that is not concerned is %q", name, order, user)
			}
			for _, id := range []string{"90.pbshost", "91.pbshost"} {
				job := jobs[id]
				if job.Owner.User != "" && job.Owner.User != "pbstest" || job.ResourceList["walltime"] != "" ||
					job.ExitStatus != nil || job.Phase == hostapi.PhaseSuspended {
					t.Errorf("%s, %s: of job %s the user's word is taken: %+v", name, order, id, job)
				}
			}
			if job := jobs["91.pbshost"]; job.ResourceList != nil || job.Phase != "" {
				t.Errorf("%s, %s: the job that holds the lines is believed: %+v", name, order, job)
			}
			if v := e.Request.VnodeList["pbshost"]; v.Comment != nil || v.ResourcesAvailable["vntype"] != "" ||
				v.ResourcesAvailable["ncpus"] != "2" {
				t.Errorf("%s, %s: vnode %+v", name, order, v)
			}
		}
	}
}

// The very variable with which a user got 10 GB for a job of 50 MB. The refusal names it.
func TestForgedResourceOfVariableIsRefused(t *testing.T) {
	const evil = "PBS_O_HOME=/home/pbstest,EVIL=a\npbs.event().job.Resource_List[vmem]=10gb\npbs.event().job.comment=x"
	for _, event := range []string{"execjob_begin", "execjob_prologue", "execjob_launch"} {
		_, err := Decode(in(t, event, `Variable_List="""PBS_O_HOME=/home/pbstest`, `Variable_List="""`+evil))
		want := "input of a hook: job 91.pbshost: a line that pbs_mom did not write: " +
			"pbs.event().job.Resource_List[vmem] behind " +
			"pbs.event().job.Variable_List, variable EVIL"
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", event, err, want)
		}
	}
	for _, event := range []string{"execjob_epilogue", "execjob_end"} {
		e, err := Decode(in(t, event, `Variable_List="""PBS_O_HOME=/home/pbstest`, `Variable_List="""`+evil))
		must.NoError(t, err)
		if r := e.Request.Job.ResourceList; r["vmem"] != "" || r["mem"] != "100mb" ||
			e.Request.VnodeList["pbshost"] == nil {
			t.Errorf("%s: Resource_List %v, vnodes %v", event, r, e.Request.VnodeList)
		}
	}
}

// A line that is in order, behind a path or a text of Resource_List, gives a job nothing.
func TestForgedResourceInItsPlaceGivesNothing(t *testing.T) {
	lines := ""
	for _, line := range []string{"accelerators=2", "fpga=4", "gpus=nvidia:A100::2", "mem=1tb", "blocks=1",
		"select=1:ngpus=8", "vmem=10gb", "gres=x",
		"pids=9", "rlimit_nofile=9", "pmem=9kb"} {
		lines += "\npbs.event().job.Resource_List[" + strings.Replace(line, "=", "]=", 1)
	}
	lines = strings.Replace(lines, "\npbs.event().job.Resource_List[mem]=1tb", "", 1) // MoM has one: a contradiction
	for _, place := range []string{"Output_Path=pbshost:/home/pbstest/envjob.o91", "Resource_List[place]=free"} {
		e, err := Decode(in(t, "execjob_begin", place, place+lines))
		must.NoError(t, err)
		got := e.Request.Job.ResourceList
		want := hostapi.Resources{"mem": "100mb", "ncpus": "1", "place": "free", "pids": "9", "rlimit_nofile": "9",
			"pmem": "9kb"}
		if !maps.Equal(got, want) {
			t.Errorf("behind %s: %v", place, got)
		}
		if got := strings.Join(e.Unasked, " "); got != "accelerators blocks fpga gpus gres select vmem" {
			t.Errorf("behind %s: not told of %s", place, got)
		}
	}
}

// Resource_List has what select asks for as the sum of its chunks, or as a text.
func TestResourcesOfSelectAreBelieved(t *testing.T) {
	for _, tt := range []struct{ sel, list, want string }{
		{"1:ncpus=1:mem=100mb:vmem=1gb", "vmem]=1gb", "1gb"},
		{"2:ncpus=1:vmem=512mb+1:vmem=1gb", "vmem]=2gb", "2gb"},
		{"2:ncpus=1:vmem=512mb+1:vmem=1gb", "vmem]=2097152kb", "2097152kb"},
		{"1:ncpus=1:vmem=1gb", "vmem]=10gb", ""},
		{"1:ncpus=1", "vmem]=0kb", ""},
		{"3:ncpus=1:fpga=2", "fpga]=6", "6"},
		{"3:ncpus=1:fpga=2", "fpga]=2", ""},
		{"1:ncpus=1:gpu_model=A100", "gpu_model]=A100", "A100"},
		{`1:ncpus=1:gpu_model="A100,H100"+1:gpu_model=T4`, "gpu_model]=T4", ""},
		{"1:ncpus=1:vmem=1gb:vmem=1gb", "vmem]=1gb", ""}, // is no select
	} {
		e, err := Decode(in(t, "execjob_begin", "schedselect=1:ncpus=1:mem=100mb", "schedselect="+tt.sel,
			"pbs.event().job.schedselect", "pbs.event().job.Resource_List["+tt.list+"\npbs.event().job.schedselect"))
		must.NoError(t, err)
		name, _, _ := strings.Cut(tt.list, "]")
		if got := e.Request.Job.ResourceList[name]; got != tt.want {
			t.Errorf("%s of %s: %q, want %q", tt.list, tt.sel, got, tt.want)
		}
	}
}

// Attributes of all captured jobs are in the order that Decode holds MoM to; two that change places
// are refused.
func TestOrderOfAttributes(t *testing.T) {
	begin := string(in(t, "execjob_begin"))
	lines := strings.SplitAfter(begin, "\n")
	for i, l := range lines {
		name, _, _ := strings.Cut(strings.TrimPrefix(l, "pbs.event().job."), "=")
		if name != "egroup" && name != "run_version" && name != "schedselect" {
			continue
		}
		moved := strings.Join(slices.Concat(lines[:1], lines[i:i+1], lines[1:i], lines[i+1:]), "")
		if _, err := Decode([]byte(moved)); err == nil ||
			!strings.Contains(err.Error(), "a line that pbs_mom did not write") {
			t.Errorf("%s before the others: %v", name, err)
		}
	}
}

func TestMalformedInputIsRefused(t *testing.T) {
	begin := string(in(t, "execjob_begin"))
	for name, text := range map[string]string{
		"empty":               "",
		"JSON":                "{}",
		"a NUL byte":          begin + "\x00",
		"no type":             strings.Replace(begin, "pbs.event().type=", "pbs.event().tyqe=", 1),
		"unknown event":       strings.Replace(begin, "type=execjob_begin", "type=queuejob", 1),
		"no job":              strings.ReplaceAll(begin, "pbs.event().job.id=", "pbs.event().job.ix="),
		"a path for an id":    strings.Replace(begin, "job.id=91.pbshost", "job.id=../91", 1),
		"an alarm of letters": strings.Replace(begin, "alarm=30", "alarm=x", 1),
		"cut off":             begin[:len(begin)/2],
		"too long":            begin + strings.Repeat("x", maxInput),
		"attach without pid":  strings.Replace(begin, "type=execjob_begin", "type=execjob_attach", 1),
		"open quotes":         strings.Replace(string(in(t, "execjob_launch")), "BATCH\"\"\"\n", "BATCH\n", 1),
	} {
		e, err := Decode([]byte(text))
		if err == nil || e != nil {
			t.Errorf("%s: taken", name)
			continue
		}
		if hostapi.KindOf(err) != hostapi.KindJob || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
