//go:build openpbs

package openpbs_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// notes are those of a job's report on a node.
func (j *job) notes(node string) []string {
	j.t.Helper()
	var report struct {
		Notes []string `json:"notes"`
	}
	must.NoError(j.t, json.Unmarshal([]byte(on(j.t, node, "hookhost report --format json "+j.id)), &report))
	return report.Notes
}

// warnings returns a function that returns the daemon's warnings since. At least one line of any
// level must have been logged by then.
func warnings(t *testing.T, node string) func() string {
	t.Helper()
	before := on(t, node, readDaemonLog)
	return func() string {
		t.Helper()
		lines, whole := strings.CutPrefix(on(t, node, readDaemonLog), before)
		if !whole || !strings.Contains(lines, "level=") {
			t.Fatalf("the log of the daemon on %s says nothing of this test", node)
		}
		var warned strings.Builder
		for line := range strings.Lines(lines) {
			if strings.Contains(line, "level=warning") {
				warned.WriteString(line)
			}
		}
		return warned.String()
	}
}

func TestProcessThatQsubLeavesBehindIsNoStrayAndOthersAre(t *testing.T) {
	j := qsub(t, "alice", small(nodes[0]), "sleep 1000")
	j.running()
	if as(t, "alice", nodes[0], "pgrep -u alice -x qsub || :") == "" {
		t.Fatal("qsub has left no process behind")
	}
	// In a guest all that a test starts is part of a service.
	if *here {
		time.Sleep(5 * time.Second)
	} else {
		pid := as(t, "alice", nodes[0],
			"setsid -f sleep 1061 </dev/null >/dev/null 2>&1; "+
				"until pgrep -u alice -x -f 'sleep 1061'; do sleep 0.1; done")
		named := func(note string) bool { return strings.Contains(note, "pid "+pid+" (sleep) ") }
		t.Cleanup(func() { on(t, nodes[0], "kill "+pid) })
		eventually(t, "the report tells of process "+pid, func() bool {
			return slices.ContainsFunc(j.notes(nodes[0]), named)
		})
	}
	for _, note := range j.notes(nodes[0]) {
		if strings.Contains(note, "qsub") {
			t.Errorf("the report of job %s has %q", j.id, note)
		}
	}
}

func TestOrdinaryJobsHaveNoNotes(t *testing.T) {
	warned := warnings(t, nodes[0])
	at := "-l select=1:ncpus=1:mem=64mb:host=" + nodes[0]
	typed, out := interactive(t, at, "/opt/pbs/bin/pbs_tmrsh "+nodes[0]+" true; sleep 3; echo over; exit")
	if !strings.Contains(out, "over\r\n") {
		t.Fatalf("qsub -I: %q", out)
	}
	jobs := map[string]*job{"interactive": typed}
	jobs["of a job"] = qsub(t, "alice", at, "echo 'sleep 1' | /opt/pbs/bin/qsub "+at+"; sleep 4")
	jobs["of tasks"] = qsub(t, "alice", at, "/opt/pbs/bin/pbsdsh -- /bin/sleep 4")
	for what, j := range jobs {
		j.ended()
		long := fmt.Sprint(j.attributes().ResourcesUsed["walltime"]) >= "00:00:10"
		for _, note := range j.notes(nodes[0]) {
			// On a slow machine the job is long enough to be told that it slept.
			if !long || !strings.HasPrefix(note, "idle: ") {
				t.Errorf("%s: the report of job %s has %q", what, j.id, note)
			}
		}
	}
	if text := warned(); text != "" {
		t.Errorf("the daemon warns: %s", text)
	}
}

func TestTaskWithoutPBS_NODEFILEIsNoWarning(t *testing.T) {
	needNodes(t, 2)
	warned := warnings(t, "node1")
	j := qsub(t, "alice", "-l select=1:ncpus=1:mem=64mb:host=node1+1:ncpus=1:mem=64mb:host=node2",
		`/opt/pbs/bin/pbsdsh -n 0 -- /bin/sh -c 'echo "nodefile:$PBS_NODEFILE" >~/nodefile'`)
	j.finished()
	if told := as(t, "alice", "node1", "cat nodefile; rm nodefile"); told != "nodefile:" {
		t.Errorf("PBS gives the task %s: then this test shows nothing", told)
	}
	if notes := j.notes("node1"); len(notes) > 0 || warned() != "" {
		t.Errorf("notes %q, the daemon warns: %s", notes, warned())
	}
}
