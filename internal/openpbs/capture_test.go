package openpbs

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const captured = "../../testdata/pbs-events"

// capturedFiles returns the events captured from a running OpenPBS, relative to captured, whose
// names end in ext.
func capturedFiles(t testing.TB, ext string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(captured, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ext {
			name, err := filepath.Rel(captured, path)
			if err != nil {
				return err
			}
			files = append(files, name)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("captured events: %d, %v", len(files), err)
	}
	return files
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	must.NoError(t, err)
	return b
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		must.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.NoError(t, os.WriteFile(name, got, 0o644))
	}
	must.Equal(t, name, string(read(t, name)), string(got))
}

func goldenRequest(t *testing.T, file string, req *hostapi.Request) {
	t.Helper()
	b, err := json.MarshalIndent(req, "", "  ")
	must.NoError(t, err)
	golden(t, filepath.Join("events", strings.TrimSuffix(file, filepath.Ext(file))+".json"), append(b, '\n'))
}

// The input file of an event is a request.
func TestCapturedEvents(t *testing.T) {
	for _, file := range capturedFiles(t, ".in") {
		t.Run(file, func(t *testing.T) {
			in := read(t, filepath.Join(captured, file))
			if !isInput(in) {
				t.Error("is not taken for an input file")
			}
			e, err := Decode(in)
			must.NoError(t, err)
			goldenRequest(t, file, e.Request)
			if e.Hook == "" || e.Alarm == 0 {
				t.Errorf("hook %q, alarm %s", e.Hook, e.Alarm)
			}
		})
	}
}

// Array jobs, chunks on vnodes of this host and of others, and what a user's client may leave out.
func TestFieldsAsTheyAre(t *testing.T) {
	const chunks = `(pbshost[0]:ncpus=1:mem=1024kb+pbshost[11]:ncpus=1)+(other:ncpus=2:arch="a,b")`
	e, err := Decode(in(t, "execjob_begin",
		"job.id=91.pbshost", "job.id=91[1234].pbs-host.example.org",
		"exec_vnode=(pbshost:ncpus=1:mem=102400kb)", "exec_vnode="+chunks,
		"pbs.event().job._msmom=True\n", "",
		"Job_Name=envjob", "Job_Name=a\"b, c=d \xff\\",
		"Resource_List[ncpus]=1", "Resource_List[ncpus]=1\npbs.event().job.Resource_List[my-res_1]=x=y",
		"schedselect=1:ncpus=1:mem=100mb", "schedselect=1:ncpus=1:mem=100mb:my-res_1=\"x=y\"",
		"job_kill_delay=10", "job_kill_delay=soon",
		"run_count=1", "run_count=-1",
		"pbs.event().job.server=pbshost\n", "pbs.event().job.server=pbshost\npbs.event().job.Account_Name=chem\n lab\n",
		"euser=pbstest", "euser=../root"))
	must.NoError(t, err)
	want := &hostapi.Job{ID: "91[1234].pbs-host.example.org", Name: "a\"b, c=d \uFFFD\\",
		Owner: hostapi.Owner{UID: -1, GID: -1}, Queue: "workq",
		Project: "_pbs_project_default", Account: "chem\n lab", Server: "pbshost", ExecVnode: chunks,
		ExecHost2: "pbshost:15002/0", Schedselect: `1:ncpus=1:mem=100mb:my-res_1="x=y"`,
		ResourceList: hostapi.Resources{"mem": "100mb", "ncpus": "1", "place": "free", "my-res_1": "x=y"},
		RunVersion:   1, JoinPath: "oe"}
	must.Equal(t, "", want, e.Request.Job)
}

// hostapi's own JSON is no input file.
func TestIsInputTellsMoMsFilesFromJSON(t *testing.T) {
	for _, text := range []string{"", "{}", `{"event":"execjob_begin","job":{"id":"1"},"node":"n1"}`, "[", `[1]`} {
		if isInput([]byte(text)) {
			t.Errorf("%q is taken for an event of pbs_mom's", text)
		}
	}
}

// Output writes what the stock hook wrote for the same changes.
func TestOutputIsPBSPythons(t *testing.T) {
	used := func(name, kind, value string) Change {
		return Change{verbUsed, []string{"", name, kind, value}}
	}
	changes := map[string][]Change{
		"execjob_begin.in": {used("cput", typeDuration, "0.0"), used("mem", typeSize, "0b"),
			used("cpupercent", typeLong, "0")},
		"execjob_epilogue.in": {used("cput", typeDuration, "0.080365012"), used("mem", typeSize, "6504kb"),
			used("cpupercent", typeLong, "0"),
			used("diag_messages", typeString, "{}")},
		"execjob_launch.in": {{verbSetenv, []string{"CUDA_VISIBLE_DEVICES", ""}}},
	}
	for _, file := range capturedFiles(t, ".out") {
		t.Run(file, func(t *testing.T) {
			in := strings.TrimSuffix(file, ".out") + ".in"
			e, err := Decode(read(t, filepath.Join(captured, in)))
			must.NoError(t, err)
			c := &Changes{List: append(changes[filepath.Base(in)], Change{Verb: verbAccept})}
			got, ok := e.Output(c)
			if d := cmp.Diff(string(read(t, filepath.Join(captured, file))), string(got)); !ok || d != "" {
				t.Errorf("ok %v (-pbs_python +got):\n%s", ok, d)
			}
		})
	}
}
