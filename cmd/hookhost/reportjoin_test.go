package main_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// Two hosts have a job, and each writes a report of its own part. The files are read as one report,
// where no daemon runs.
func TestReportsOfAJobsHostsAreJoined(t *testing.T) {
	files := newNode(t) // where no daemon runs
	reader := func(stdin string, args ...string) result {
		cmd := files.command(append([]string{"report"}, args...)...)
		cmd.Dir, cmd.Stdin = files.dir, strings.NewReader(stdin)
		return files.finish(cmd)
	}
	for _, host := range []string{"n1", "n2"} {
		n := newNode(t, "[host]\nnode = \""+host+"\"\n[cpuset]\nenabled = false")
		served := n.serve()
		job := fmt.Sprintf(`"job":{"id":"12.srv","owner":{"user":"nobody","uid":%d,"gid":%d},"run_count":1,
			"exec_vnode":"(n1:ncpus=1:mem=65536kb)+(n2:ncpus=1:mem=65536kb)",
			"exec_host2":"n1.cluster:15002/0+n2.cluster:15002/0","in_ms_mom":%t`, ownerUID, ownerUID, host == "n1")
		for _, event := range []string{`"event":"execjob_begin",` + job,
			`"event":"execjob_attach","pid":` + fmt.Sprint(sleeper(t, ownerUID).Process.Pid) + `,` + job,
			`"event":"execjob_epilogue",` + job + `,"exit_status":3`, `"event":"execjob_end",` + job} {
			name := strings.Split(event, `"`)[3]
			if r := n.send(name, `{`+event+`}}`); r.status != 0 {
				t.Fatalf("%s on %s: %+v", name, host, r)
			}
		}
		r := n.hookhost("report", "--json", "12.srv")
		must.NoError(t, os.WriteFile(files.path(host+".json"), []byte(r.stdout), 0o600))
		served.stop()
	}
	must.NoError(t, exec.Command("gzip", "-k", files.path("n2.json")).Run())
	n2, err := os.ReadFile(files.path("n2.json"))
	must.NoError(t, err)

	alone := reader("", "--json", "./n1.json")
	if rep := reportOfHosts(t, alone.stdout); len(rep.Hosts) != 1 || len(rep.Missing) != 1 {
		t.Errorf("the mother superior's part: %+v", rep)
	}
	inputs := map[string][]string{"": {"n2.json.gz", "n1.json"}, string(n2): {"n1.json", "-", "n2.json"}}
	for stdin, args := range inputs {
		r := reader(stdin, append(args, "--json")...)
		rep := reportOfHosts(t, r.stdout)
		must.Equal(t, "hosts", []string{"n1", "n2"}, slices.Sorted(maps.Keys(rep.Hosts)))
		if rep.Job != "12.srv" || len(rep.Missing) != 0 || *rep.ExitStatus != 3 || rep.ResourcesUsed["ncpus"] != 2.0 ||
			rep.Hosts["n2"].MemBytes == nil || rep.Hosts["n2"].Attached != 1 || r.stderr != "" {
			t.Errorf("%v: %+v, %s", args, rep, r.stderr)
		}
	}
	for format, want := range map[string]string{"text": "of 128 MiB", "csv": ",n1 n2,,2,", "html": "n2",
		"pbs": "exec_host=n1/0+n2/0"} {
		r := reader("", "--format", format, "n1.json", "n2.json")
		if r.status != 0 || !strings.Contains(r.stdout, want) {
			t.Errorf("%s: %+v", format, r)
		}
	}

	must.NoError(t, os.WriteFile(files.path("cut.json"), n2[:200], 0o600))
	must.NoError(t, os.WriteFile(files.path("other.json"), []byte(strings.ReplaceAll(string(n2), "12.srv", "13.srv")),
		0o600))
	for args, want := range map[string]struct {
		status int
		text   string
	}{
		"n1.json cut.json":        {1, "read cut.json: unexpected EOF"},
		"n1.json other.json":      {1, "join n1.json and other.json: job 12.srv and job 13.srv"},
		"n1.json absent.json":     {1, "absent.json: no such file"},
		"-":                       {1, "read standard input: EOF"},
		"n1.json 12.srv":          {2, "n1.json and 12.srv: a JOB and a FILE"},
		"n1.json --user nobody":   {2, "--user: chooses among all jobs"},
		"--format yaml ./n1.json": {2, "yaml"},
	} {
		r := reader("", strings.Fields(args)...)
		if r.status != want.status || !strings.Contains(r.stderr, want.text) || r.stdout != "" {
			t.Errorf("report %s: %+v, want %+v", args, r, want)
		}
	}
}
