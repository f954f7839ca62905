package main_test

import (
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// ended is a job that ended so long ago.
func (n *node) ended(id, user string, uid int, ago time.Duration, status int, host string) {
	n.t.Helper()
	oom := 0
	if status == 137 {
		oom = 1
	}
	end := time.Now().Add(-ago).Truncate(time.Second)
	n.archived(map[string]any{
		"job": id, "name": "x", "owner": user, "start": end.Add(-time.Minute), "end": end, "exit_status": status,
		"hosts":   map[string]any{host: map[string]any{"ncpus": 1, "oom_kills": oom}},
		"pbs_job": hostapi.Job{ID: id, Owner: hostapi.Owner{User: user, UID: uid, GID: uid}},
	})
}

// jobsListed returns the jobs of a csv in order.
func jobsListed(t *testing.T, r result) []string {
	t.Helper()
	if r.status != 0 || r.stderr != "" {
		t.Errorf("status %d, stderr %q", r.status, r.stderr)
	}
	rows, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
	must.NoError(t, err)
	jobs := []string{}
	for _, row := range rows[1:] {
		jobs = append(jobs, row[0])
	}
	return jobs
}

// Reports are chosen alike by the daemon and, for root without one, by the command itself.
func TestReportChoosesAmongJobs(t *testing.T) {
	n := openNode(t)
	n.ended("1.x", "nobody", ownerUID, 72*time.Hour, 0, "n1")
	n.ended("2.x", "daemon", 1, 48*time.Hour, 3, "n2.cluster")
	n.ended("3.x", "nobody", ownerUID, 2*time.Hour, 143, "n1")
	n.ended("4.x", "stranger-here", 70000, time.Hour, 0, "n2")
	n.ended("5.x", "daemon", 1, time.Minute, 137, "n1")
	questions := map[string][]string{
		"":                           {"1.x", "2.x", "3.x", "4.x", "5.x"},
		"--user nobody":              {"1.x", "3.x"},
		"--user 65534":               {"1.x", "3.x"},
		"--user stranger-here":       {"4.x"},
		"--user bob":                 {},
		"--since 1d":                 {"3.x", "4.x", "5.x"},
		"--until 1d":                 {"1.x", "2.x"},
		"--since 49h --until 1h30m":  {"2.x", "3.x"},
		"--state failed":             {"2.x", "3.x", "5.x"},
		"--state ok,oom":             {"1.x", "4.x", "5.x"},
		"--state killed":             {"3.x", "5.x"},
		"--host n2":                  {"2.x", "4.x"},
		"--limit 2":                  {"4.x", "5.x"},
		"--limit 2 --until 90m":      {"2.x", "3.x"},
		"--limit 0":                  {"1.x", "2.x", "3.x", "4.x", "5.x"},
		"--sort -job":                {"5.x", "4.x", "3.x", "2.x", "1.x"},
		"--sort owner --limit 2":     {"2.x", "5.x"},
		"--user daemon --state oom":  {"5.x"},
		"--since tomorrow":           nil,
		"--state asleep":             nil,
		"--columns mem":              nil,
		"--sort mem":                 nil,
		"--limit -3":                 nil,
		"--user nobody --until noon": nil,
	}
	look := func(t *testing.T) {
		n.t = t
		for question, want := range questions {
			args := append([]string{"report", "--format", "csv"}, strings.Fields(question)...)
			r := n.hookhost(args...)
			if want == nil {
				if r.status != 2 || r.stdout != "" || !strings.Contains(r.stderr, "report: --") &&
					!strings.Contains(r.stderr, "not one of") {
					t.Errorf("%s: %+v, want a misuse", question, r)
				}
				continue
			}
			must.Equal(t, question, want, jobsListed(t, r))
		}
		r := n.hookhost("report", "5.x", "9.x", "2.x", "--format", "json")
		if r.status != 1 || strings.Count(r.stdout, "\n") != 2 || !strings.Contains(r.stderr, "9.x") ||
			decodeReport(t, r.stdout).Job != "5.x" {
			t.Errorf("several jobs, one of them unknown: %+v", r)
		}
		if r := n.hookhost("report", "1.x", "--since", "1d"); r.status != 2 {
			t.Errorf("a job and a choice: %+v", r)
		}
		if r := n.hookhost("report", "--json", "--limit", "1"); decodeReport(t, r.stdout).Job != "5.x" {
			t.Errorf("--json: %+v", r)
		}
		r = n.hookhost("report", "--limit", "3")
		lines := strings.Split(r.stdout, "\n")
		if r.status != 0 || len(lines) != 6 || !strings.HasPrefix(lines[0], "JOB") ||
			!strings.HasPrefix(lines[1], "5.x ") || !strings.Contains(lines[4], "the first 3") {
			t.Errorf("a table: %+v", r)
		}
	}
	t.Run("without a daemon", look)
	n.t = t
	n.serve()
	t.Run("with a daemon", look)
	t.Run("for a user", func(t *testing.T) {
		n.t = t
		for question, want := range map[string]string{"--limit=0": "[1.x 3.x]", "--user=daemon": "[]",
			"--state=killed": "[3.x]", "--user=65534": "[1.x 3.x]", "--limit=1": "[3.x]"} {
			must.Equal(t, question, want, fmt.Sprint(jobsListed(t, n.as(ownerUID, "report", "--format=csv", question))))
		}
		if r := n.as(strangerUID, "report"); r.status != 0 || r.stdout != "no jobs\n" {
			t.Errorf("a stranger's table: %+v", r)
		}
	})
	n.t = t
}

// A job that runs is at the head of the table and at the end of csv, with what it uses now. The
// other formats have it where it is asked for.
func TestReportListsJobsThatRun(t *testing.T) {
	n := openNode(t)
	n.ended("1.x", "root", 0, time.Hour, 0, "n1")
	n.serve()
	job := n.start("run", "--job=2.x", "--report=none", "--", "sh", "-c", "echo runs; read x")
	if r := n.hookhost("report"); !strings.HasPrefix(strings.Split(r.stdout, "\n")[1], "2.x ") ||
		!strings.Contains(r.stdout, " running ") || !strings.Contains(r.stdout, "\n1.x ") {
		t.Errorf("table: %s", r.stdout)
	}
	for question, want := range map[string][]string{"--limit=0": {"1.x", "2.x"}, "--state=running": {"2.x"},
		"--state=running,ok": {"1.x", "2.x"}, "--since=10m": {"2.x"}, "--state=finished": {"1.x"},
		"--until=now": {"1.x"}} {
		must.Equal(t, question, want, jobsListed(t, n.hookhost("report", "--format=csv", question)))
	}
	r := n.hookhost("report", "--json")
	if decodeReport(t, r.stdout).Job != "1.x" || strings.Contains(r.stdout, "2.x") {
		t.Errorf("json: %s", r.stdout)
	}
	for list, uses := range map[string]string{
		"report --format=csv --state=running --columns=mem_bytes,cput_seconds": `\n[1-9][0-9]*,0\.[0-9]+\n$`,
		"report --state=running --columns=mem_bytes":                           `\n *[0-9.]*[1-9][0-9.]* [KM]iB\n$`,
		"jobs": ` [1-9][0-9]*kb +[1-9][0-9]*kb +0 +1 +-\n$`,
	} {
		if r := n.hookhost(strings.Fields(list)...); !regexp.MustCompile(uses).MatchString(r.stdout) {
			t.Errorf("%s: what the job uses: %s", list, r.stdout)
		}
	}
	if r := n.as(ownerUID, "report"); r.stdout != "no jobs\n" {
		t.Errorf("somebody else sees %s", r.stdout)
	}
	must.NoError(t, job.stdin.Close())
	job.wait()
	if jobs := jobsListed(t, n.hookhost("report", "--format=csv")); !slices.Equal(jobs, []string{"1.x", "2.x"}) {
		t.Errorf("when it has ended: %v", jobs)
	}
}
