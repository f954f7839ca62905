package main_test

import (
	"encoding/csv"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

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
