package openpbs_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

var update = flag.Bool("update", false, "write the golden files anew")

// script is what the daemon answers to each captured event, by kind; where a directory has an entry
// of its own, that.
var script = map[string][]string{
	"execjob_begin": {"log", "debug", "cgroup made", "used", "", "cpupercent", "long", "0", "used", "", "cput",
		"duration", "0",
		"used", "", "mem", "size", "0kb", "used", "", "vmem", "size", "0kb", "accept"},
	"execjob_prologue": {"log", "warning", "a warning", "log", "job 82.pbshost", "about\na job", "accept"},
	"execjob_launch": {"log", "debug", "in", "progname", "/usr/bin/env", "argv", "arg", "-i", "arg",
		"two words, \"quoted\" \\ and more", "setenv", "COMMA", "a,b\\c'd\"",
		"setenv", "CUDA_VISIBLE_DEVICES", "", "setenv", "NEWLINE", "one\ntwo", "setenv", "PBS_NODEFILE", "/tmp/nodes",
		"setenv", "ZLAST", "ends,", "unsetenv", "NCPUS",
		"unsetenv", "NONE", "accept"},
	"execjob_attach":      {"log", "debug", "attached", "accept"},
	"execjob_postsuspend": {"accept"},
	"execjob_preresume":   {"reject", "no memory to resume in"},
	"execjob_abort":       {"delete", "reject", "aborted\nin two lines"},
	"execjob_epilogue": {"used", "", "cpupercent", "long", "98", "used", "", "cput", "duration", "00:01:30", "used", "",
		"diag_messages", "string",
		`{"pbshost":["Cgroup mem limit exceeded: \"x\", y"]}`, "used", "", "energy", "float", "1.5", "used", "",
		"gpu_mem", "size", "12mb", "used", "", "mem", "size", "77777kb",
		"used", "", "ranks", "long", "4", "used", "", "spread", "float", "0.25", "used", "", "waited", "duration", "90",
		"used", "", "whole", "boolean", "true",
		"vnode", "pbshost", "comment", "", "string", "one left", "accept"},
	"execjob_end": {"accept"},
	"exechost_periodic": {"log", "error", "orphan killed", "vnode", "pbshost", "resources_available", "mem", "size",
		"100mb",
		"vnode", "pbshost", "resources_available", "diag_messages", "string", "", "restart", "accept"},
	"exechost_startup": {"vnode", "pbshost", "resources_available", "mem", "size", "0b", "vnode", "pbshost[0]",
		"resources_available", "hpmem", "size", "1gb",
		"vnode", "pbshost[0]", "resources_available", "mem", "size", "11gb", "vnode", "pbshost[0]",
		"resources_available", "ncpus", "long", "1",
		"vnode", "pbshost[0]", "sharing", "", "string", "default_excl", "vnode", "pbshost[1]", "comment", "", "string",
		"", "vnode", "pbshost[1]", "state", "", "string", "offline,busy", "accept"},
	"abort86/execjob_begin": {"log", "error", "no cgroup", "hold", "rerun", "reject",
		"Unexpected error in hookhost (system hold set)"},
	"qdel83/execjob_begin": {"log", "error", "not possible", "log", "set run_count", "0",
		"log", "set Execution_Time", "1800000030", "rerun", "reject", "Failed to assign resources"},
	"array95_1/execjob_begin": {"delete", "reject", "ncpus=9: at most 2 on this host"},
	"qdel83/execjob_preterm":  {"reject", "not now"},
	"job82/execjob_attach":    {"reject", "4711: not a process of the job's owner"},
	"host/exechost_periodic_with_jobs": {"log", "debug", "1 job", "used", "91.pbshost", "cput", "duration", "99",
		"used", "91.pbshost", "mem", "size", "54322kb",
		"used", "92.gone", "mem", "size", "1kb", "vnode", "pbshost", "no_such_attribute", "", "string", "x", "vnode",
		"pbshost", "resources_available", "a=b", "string", "x",
		"offline", "pbshost", "Hook cgroup: Unable to clean up one or more cgroups", "accept"},
	// A field that the event does not let a hook change is left, and the log says so.
	"twochunk92/execjob_prologue": {"used", "", "mem", "size", "much", "used", "", "ncpus", "long", "none", "used", "",
		"x", "exotic", "y", "rerun", "reject", "requeue"},
}

// The golden files are what lands in MoM's file, for every event that was captured from a running
// pbs_mom.
func TestShimGolden(t *testing.T) {
	t.Parallel()
	inputs, err := filepath.Glob("../../testdata/pbs-events/*/*.in")
	if err != nil || len(inputs) < 40 {
		t.Fatalf("%d captured events, %v", len(inputs), err)
	}
	m := newHookMoM(t)
	must.NoError(t, os.WriteFile(m.at("server"), []byte("pbshost\tfree\tdisk is slow"), 0o600))
	m.env = []string{"PBS_STANDIN_SERVER=" + m.at("server")}
	answers := map[string][]string{}
	startGolden(t, m, answers)
	seen := map[string]bool{}
	for _, file := range inputs {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "../../testdata/pbs-events/"), ".in")
		event := eventOf.FindStringSubmatch(captured(t, name))[1]
		key := name
		if _, own := script[name]; !own {
			key = event
		}
		seen[key] = true
		answers["now"] = script[key]
		r := m.run(captured(t, name))
		checkGolden(t, strings.ReplaceAll(name, "/", "_"), "# what MoM reads\n"+r.out+"# what is logged\n"+r.said)
	}
	for key := range script {
		if !seen[key] {
			t.Errorf("no event is answered by %q", key)
		}
	}
}

func startGolden(t *testing.T, m *hookMoM, answers map[string][]string) {
	startDaemon(t, m.socket, true,
		func(c netConn, r fakeRequest) { respond(c, 200, changesType, changes(answers["now"]...)) })
}

func checkGolden(t *testing.T, name, have string) {
	t.Helper()
	file := filepath.Join("testdata/golden", name+".txt")
	if *update {
		must.NoError(t, os.MkdirAll("testdata/golden", 0o755))
		must.NoError(t, os.WriteFile(file, []byte(have), 0o644))
	}
	want, err := os.ReadFile(file)
	must.NoError(t, err)
	if have != string(want) {
		t.Errorf("%s: have\n%s\nwant\n%s", name, have, want)
	}
}

var (
	eventOf  = regexp.MustCompile(`(?m)^pbs\.event\(\)\.type=(\S+)$`)
	usedLine = regexp.MustCompile(`(?m)^pbs\.event\(\)\.job\.resources_used\[(\w+),(\w+)\]=(.*)$`)
)

// The same changes as pbs_cgroups made under the real pbs_python, by the shim and the stand-in:
// MoM's file is the same to the byte. The test shows that the stand-in writes what PBS writes.
func TestShimWritesAsPBS(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("../../testdata/pbs-events/stock_hook_job82/*.out")
	if len(files) < 7 {
		t.Fatalf("%d files", len(files))
	}
	m := newHookMoM(t)
	answers := map[string][]string{}
	startGolden(t, m, answers)
	for _, file := range files {
		b, err := os.ReadFile(file)
		must.NoError(t, err)
		var fields []string
		for _, used := range usedLine.FindAllStringSubmatch(string(b), -1) {
			kind := used[2]
			if used[1] == "cput" {
				kind = "float" // pbs_cgroups sets a float, and PBS says what the resource is
				fields = append(fields, "used", "", used[1], "duration", used[3])
				continue
			}
			fields = append(fields, "used", "", used[1], kind, used[3])
		}
		if strings.Contains(file, "launch") {
			fields = append(fields, "setenv", "CUDA_VISIBLE_DEVICES", "")
		}
		name := strings.TrimSuffix(strings.TrimPrefix(file, "../../testdata/pbs-events/"), ".out")
		answers["now"] = slices.Concat(fields, []string{"accept"})
		if r := m.run(captured(t, name)); r.out != string(b) {
			t.Errorf("%s: have\n%s\nwant\n%s\n%s", name, r.out, b, r.said)
		}
	}
}

// MoM's file is handed over as it is, with who called.
func TestShimRequest(t *testing.T) {
	t.Parallel()
	m := newHookMoM(t)
	d := answering(t, m, "accept")
	for _, e := range hookEvents {
		input := anEvent(t, e.name)
		if r := m.run(input); !r.accepted() || r.said != "" {
			t.Errorf("%s: %s%s", e.name, r.out, r.said)
		}
		q := d.requests()[len(d.requests())-1]
		if added(q.body, input) != "" || q.path != "POST /v1/pbs/event" || q.head.Get("Hookhost-Parent") != pid() ||
			q.head.Get("Hookhost-Asked") != "" {
			t.Errorf("%s: %+v", e.name, q)
		}
	}
}

// An event with what is not UTF-8 in it breaks off in pbs_python, and a launch would crash. The job
// runs all the same.
func TestShimNotUTF8(t *testing.T) {
	t.Parallel()
	m := newHookMoM(t)
	answering(t, m, "setenv", "A", "b", "accept")
	launch := anEvent(t, "execjob_launch")
	for _, tt := range []struct{ broken, want string }{
		{strings.Replace(launch, "FOO=bar", "FOO=\xe4\xff", 1), ",FOO=\ufffd\ufffd,"},
		{strings.Replace(launch, `Variable_List="""`, `Variable_List="""X=`+"\xe4,", 1), ",FOO=bar,"},
		{strings.Replace(launch, "job.Job_Name=main", "job.Job_Name=\xe4", 1), ",FOO=bar,"},
	} {
		r := m.run(strings.Replace(tt.broken, "pbs.event().env=",
			"pbs.event().argv[0]=one\npbs.event().argv[1]=\npbs.event().argv[2]=three\npbs.event().env=", 1))
		for _, want := range []string{tt.want, `,A=b"""`,
			"progname=/bin/bash\npbs.event().argv[0]=one\npbs.event().argv[1]=\npbs.event().argv[2]=three\n" +
				"pbs.event().env=\"\"\"PATH=/bin:/usr/bin,"} {
			if !r.accepted() || !strings.Contains(r.out, want) {
				t.Errorf("no %q in\n%s%s", want, r.out, r.said)
			}
		}
	}
	if r := m.run(strings.Replace(anEvent(t, "execjob_end"), "job.Job_Name=main", "job.Job_Name=\xe4",
		1)); !r.accepted() {
		t.Errorf("%s%s", r.out, r.said)
	}
}

// A field that a job must not run without is not left out. The event has the outcome of a daemon
// that failed.
func TestShimVital(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		event  string
		fields []string
		want   string
	}{
		{"execjob_launch", []string{"setenv", "A", "\xff", "accept"}, "rejected: setenv: PBS takes only UTF-8"},
		{"execjob_launch", []string{"argv", "arg", "one", "arg", "two\nlines", "accept"},
			"rejected: arg two lines: PBS takes only one line"},
		{"execjob_begin", []string{"setenv", "A", "b", "accept"}, `rejected: setenv A b: "env" not found`},
		{"execjob_begin", []string{"progname", "/x", "accept"},
			"rejected: progname /x: event attribute 'progname' not found"},
		{"execjob_resize", []string{"hold", "reject", "x"},
			"rejected: hold: nothing is settable inside an execjob_resize hook!"},
		{"exechost_periodic", []string{"rerun", "accept"}, `exechost_periodic: accepted: rerun: "job" not found`},
	} {
		m := newHookMoM(t, `unconfined = true`) // half a program must not run, whatever is configured
		answering(t, m, tt.fields...)
		if r := m.run(anEvent(t, tt.event)); !strings.Contains(r.said, tt.want) ||
			strings.Contains(r.out, "vnode_list") || r.accepted() != (tt.event == "exechost_periodic") {
			t.Errorf("%s: want %q:\n%s%s", tt.event, tt.want, r.out, r.said)
		}
	}
}
