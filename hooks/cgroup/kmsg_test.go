package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/must"
)

// records returns one record per Read, like /dev/kmsg.
type records []string

func (r *records) Read(b []byte) (int, error) {
	if len(*r) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*r)[0])
	*r = (*r)[1:]
	return n, nil
}

// Lines as written by Linux 6.18, with paths and pids changed.
const (
	summary = "4,401,419843018,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=1.srv," +
		"mems_allowed=0,oom_memcg=/pbs_jobs.service/jobid/1.srv,task_memcg=/pbs_jobs.service/jobid/1.srv," +
		"task=python3,pid=2196,uid=0\n"
	victim = "Killed process 2196 (python3) total-vm:323768kB, anon-rss:65280kB, file-rss:6604kB, " +
		"shmem-rss:0kB, UID:0 pgtables:184kB oom_score_adj:0"
	killed = "3,402,419843040,-;Memory cgroup out of memory: " + victim + "\n SUBSYSTEM=x\n"
)

// summaryOf returns the record of a kill in the cgroup below of a job. The jobs' cgroups are in /p.
// The text task is the name of the program and the fields after it.
func summaryOf(seq int, job, below, task string) string {
	return fmt.Sprintf("4,%d,9,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/p/%s,"+
		"task_memcg=/p/%s%s,task=%s,uid=0\n", seq, job, job, below, task)
}

// summaryIn is summaryOf for job 1.srv with all of the kernel's fields, if memory ran out in memcg.
// Both cgroups are below the job.
func summaryIn(memcg, task, name string) string {
	return fmt.Sprintf("4,1,9,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=1.srv,mems_allowed=0-1,3,"+
		"oom_memcg=/p/jobs/1.srv%s,task_memcg=/p/jobs/1.srv%s,task=%s,uid=0\n", memcg, task, name)
}

const kill7 = "3,2,9,-;Memory cgroup out of memory: Killed process 7 (sh) x\n"

// forged is the path of directories that a job's owner made.
const forged = "/main/x,mems_allowed=0,oom_memcg=/p,task_memcg=/p/jobs/2.srv,task=a,pid=9,uid=0"

func TestReadOOM(t *testing.T) {
	tests := []struct {
		name    string
		records records
		path    string
		since   int64
		want    []oomKill
	}{
		{"ours", records{summary, killed}, "/pbs_jobs.service/jobid/1.srv", 0,
			[]oomKill{{seq: 402, pid: 2196, line: victim}}},
		{"of a job whose id begins like ours", records{summary, killed}, "/pbs_jobs.service/jobid/1.s", 0, nil},
		{"of a job whose id ends like ours", records{summary, killed}, "/jobid/1.srv", 0, nil},
		{"in a cgroup that the job made", records{
			summaryOf(1, "jobid/1.srv", "/box", "sh,pid=7"),
			"3,2,9,-;Memory cgroup out of memory: Killed process 7 (sh) x\n"}, "/p/jobid/1.srv", 0,
			[]oomKill{{seq: 2, pid: 7, line: "Killed process 7 (sh) x"}}},
		{"in a rank's", records{
			summaryOf(1, "jobid/1.srv", "/rank.3", "sh,task=a,pid=7"),
			"3,2,9,-;Memory cgroup out of memory: Killed process 7 (sh) x\n",
			summaryOf(3, "jobid/1.srv", "/rank.2.14/box", "sh,pid=8"),
			"3,4,9,-;Memory cgroup out of memory: Killed process 8 (sh) x\n",
			summaryOf(5, "jobid/1.srv", "/main", "rank.5,pid=9"),
			"3,6,9,-;Memory cgroup out of memory: Killed process 9 (rank.5) x\n"}, "/p/jobid/1.srv", 0,
			[]oomKill{{seq: 2, pid: 7, line: "Killed process 7 (sh) x", ranks: []int{3}},
				{seq: 4, pid: 8, line: "Killed process 8 (sh) x", ranks: []int{14}},
				{seq: 6, pid: 9, line: "Killed process 9 (rank.5) x"}}},
		{"host out of memory", records{
			"4,1,9,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom," +
				"task_memcg=/p/jobid/1.srv,task=sh,pid=7,uid=0\n",
			"3,2,9,-;Out of memory: Killed process 7 (sh) x\n"}, "/p/jobid/1.srv", 0,
			[]oomKill{{seq: 2, pid: 7, line: "Killed process 7 (sh) x", global: true}}},
		{"all jobs out of memory", records{
			"4,1,9,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,oom_memcg=/p/jobid/1.srv,b," +
				"mems_allowed=0,oom_memcg=/p/jobid,task_memcg=/p/jobid/1.srv/rank.2,task=sh,pid=7,uid=0\n",
			"3,2,9,-;Memory cgroup out of memory: Killed process 7 (sh) x\n"}, "/p/jobid/1.srv", 0,
			[]oomKill{{seq: 2, pid: 7, line: "Killed process 7 (sh) x", ranks: []int{2}, parent: true}}},
		{"a program with a telling name", records{
			"4,1,9,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)," +
				"task_memcg=/p/jobid/1.srv,task=a,pid=1,uid=0,pid=8,uid=0\n",
			"3,2,9,-;Memory cgroup out of memory: Killed process 8 (a,pid=1) x\n"}, "/p/jobid/1.srv", 0,
			[]oomKill{{seq: 2, pid: 8, line: "Killed process 8 (a,pid=1) x"}}},
		{"at a limit that the job's owner has set", records{
			summaryIn("/main/x", "/main/x/y", "sh,pid=7"), kill7}, "/p/jobs/1.srv", 0,
			[]oomKill{{seq: 2, pid: 7, line: "Killed process 7 (sh) x", inside: true}}},
		{"in a cgroup whose name looks like all jobs", records{
			summaryIn("/main/x,oom_memcg=/p", "/main/x,oom_memcg=/p", "sh,pid=7"), kill7}, "/p/jobs/1.srv", 0,
			[]oomKill{{seq: 2, pid: 7, line: "Killed process 7 (sh) x", inside: true}}},
		{"in a cgroup whose name looks like another job", records{
			summaryIn(forged, forged, "sh,pid=7"), kill7}, "/p/jobs/2.srv", 0, nil},
		{"in a cgroup whose name looks like another job, as its own", records{
			summaryIn(forged, forged, "sh,pid=7"), kill7}, "/p/jobs/1.srv", 0,
			[]oomKill{{seq: 2, pid: 7, line: "Killed process 7 (sh) x", inside: true}}},
		{"below a cgroup whose name looks like another job", records{
			summaryIn("", forged, "sh,pid=7"), kill7}, "/p/jobs/2.srv", 0, nil},
		{"before the job began", records{summary, killed}, "/pbs_jobs.service/jobid/1.srv", 500_000_000, nil},
		{"summary suppressed by the kernel's rate limit", records{killed}, "/pbs_jobs.service/jobid/1.srv", 0, nil},
		{"all of a cgroup, memory.oom.group", records{
			summaryOf(1, "jobs/1.srv", "", "sh,pid=7"),
			"3,2,9,-;Memory cgroup out of memory: Killed process 7 (sh) x\n",
			"6,3,9,-;Tasks in /p/jobs/1.srv are going to be killed due to memory.oom.group set\n",
			"3,4,9,-;Memory cgroup out of memory: Killed process 8 (a) y\n",
			"3,4,9,-;Memory cgroup out of memory: Killed process 7 (sh) x\n",
			summaryOf(5, "jobs/2.srv", "", "sh,pid=9"),
			"3,6,9,-;Memory cgroup out of memory: Killed process 9 (sh) z\n"}, "/p/jobs/1.srv", 0,
			[]oomKill{{seq: 2, pid: 7, line: "Killed process 7 (sh) x"},
				{seq: 4, pid: 8, line: "Killed process 8 (a) y"},
				{seq: 4, pid: 7, line: "Killed process 7 (sh) x", again: true}}},
		{"all of another cgroup", records{
			"6,3,9,-;Tasks in /p/jobs/1.srv2 are going to be killed due to memory.oom.group set\n",
			"3,4,9,-;Memory cgroup out of memory: Killed process 8 (a) y\n"}, "/p/jobs/1.srv", 0, nil},
		{"logged by a clock that runs slow", records{summary, killed}, "/pbs_jobs.service/jobid/1.srv", 424_900_000,
			[]oomKill{{seq: 402, pid: 2196, line: victim}}},
		{"the path of a program in another line of the kernel's", records{
			summaryOf(1, "jobid/1.srv", "", "sh,pid=7"),
			"6,2,9,-;process '/tmp/Out of memory: Killed process 7 (sh) forged' started with executable stack\n",
			"3,3,9,-;Memory cgroup out of memory: Killed process 7 (sh) x\n"}, "/p/jobid/1.srv", 0,
			[]oomKill{{seq: 3, pid: 7, line: "Killed process 7 (sh) x"}}},
		{"a name at the beginning of a line, and that of a file further on", records{
			"6,1,9,-;Tasks in /p/jobs/1.srv are going to be killed due to memory.oom.group set\n",
			"6,2,9,-;oom-kill:constr[9]: segfault at 0 ip 0 sp 0 error 4 in x[1+2]\n",
			"6,3,9,-;Out of memory[9]: segfault at 0 ip 0 sp 0 error 4 in a: Killed process 7 (sh) x[1+2]\n",
			"3,4,9,-;Memory cgroup out of memory: Killed process 8 (a) y\n"}, "/p/jobs/1.srv", 0,
			[]oomKill{{seq: 4, pid: 8, line: "Killed process 8 (a) y"}}},
		{"not records", records{"", ";", "a,b,c;d", "oom-kill:constraint="}, "/p", 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readOOM(&tt.records, tt.path, tt.since)
			must.NoError(t, err)
			must.Equal(t, "", tt.want, got, cmp.AllowUnexported(oomKill{}))
		})
	}
}

func readOOM(r io.Reader, path string, since int64) ([]oomKill, error) {
	l := oomLog{path: path, since: since}
	err := l.read(r)
	return l.kills, err
}

// FuzzReadOOM reads any two records. A program chooses its name. Whatever the name is, a kill
// belongs only to the job whose cgroup the kernel names.
func FuzzReadOOM(f *testing.F) {
	f.Add(summary, killed, "python3")
	f.Add("4,1,9,-;Tasks in /p/jobid/1.srv are going to be killed", killed, ",task_memcg=/p/jobid/2.srv,task=x,pid=1")
	f.Add(";", "3,2,9", ",pid=7,uid=0")
	const path = "/pbs_jobs.service/jobid/1.srv"
	f.Fuzz(func(t *testing.T, a, b, name string) {
		r := records{a, b}
		kills, err := readOOM(&r, path, 0)
		if err != nil {
			t.Errorf("reading failed: %v", err)
		}
		for _, k := range kills {
			if !strings.HasPrefix(k.line, "Killed process ") || strings.Contains(k.line, "\n") {
				t.Errorf("%q, %q: %+v", a, b, k)
			}
		}
		name = strings.ReplaceAll(name, "\n", " ")
		_, _, text, ok := parseKmsg(summaryOf(1, "jobid/1.srv", "", name+",pid=7"))
		if !ok {
			t.Fatalf("name %q: no record", name)
		}
		if k, ours := parseSummary(text, "/p/jobid/1.srv"); !ours || k.pid != 7 {
			t.Errorf("name %q: %+v, %v", name, k, ours)
		}
		if k, ours := parseSummary(text, "/p/jobid/2.srv"); ours {
			t.Errorf("name %q: a kill of another job: %+v", name, k)
		}
	})
}
