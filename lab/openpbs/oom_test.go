//go:build openpbs

package openpbs_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// tooMuch is a program that the kernel kills in a job of 64 MB.
const tooMuch = `/usr/bin/python3 -c 'x = b"x" * (300 << 20)'`

const oomText = "Cgroup mem limit exceeded"

// resourcedef is where MoM has the server's custom resources.
const resourcedef = pbsHome + "/mom_priv/hooks/resourcedef"

// createResource creates a custom resource and waits until the nodes know it. It may exist from an
// earlier test, and stays after this one.
func createResource(t *testing.T, name, attributes string) {
	t.Helper()
	run(nodes[0], fmt.Sprintf(`qmgr -c "create resource %s %s"`, name, attributes))
	for _, node := range nodes {
		eventually(t, node+" knows resource "+name, func() bool {
			return run(node, "grep -q '^"+name+" ' "+resourcedef) == nil
		})
	}
}

// used is what PBS has of a finished job's usage, in qstat and in its one record E in accounting.
// The record's diag_messages may be quoted and has blanks.
func (j *job) used() (qstat map[string]any, record string) {
	j.t.Helper()
	a := j.finished()
	lines := on(j.t, nodes[0], fmt.Sprintf("cat %s/server_priv/accounting/* | grep ';E;%s;' || :", pbsHome, j.id))
	if strings.Count(lines, ";E;") != 1 {
		j.t.Fatalf("accounting of job %s has %q", j.id, lines)
	}
	for _, name := range []string{"cput", "mem", "walltime", "ncpus"} {
		value := a.ResourcesUsed[name]
		if value == nil || !strings.Contains(lines, fmt.Sprintf(" resources_used.%s=%v ", name, value)) {
			j.t.Errorf("resources_used.%s of job %s: %v in qstat, accounting has %s", name, j.id, value, lines)
		}
	}
	return a.ResourcesUsed, lines
}

var diagInRecord = regexp.MustCompile(`resources_used\.diag_messages=(\S*\{[^}]*\}'?)`)

// diagMessages are those of a finished job, by host: the same in qstat and in accounting; nil where
// neither has any.
func (j *job) diagMessages() map[string]string {
	j.t.Helper()
	used, record := j.used()
	told := used["diag_messages"]
	match := diagInRecord.FindStringSubmatch(record)
	if told == nil && match == nil {
		return nil
	}
	if object, is := told.(map[string]any); is { // qstat's JSON has it as an object where MoM has not quoted it
		b, err := json.Marshal(object)
		must.NoError(j.t, err)
		told = string(b)
	}
	if match == nil || told == nil {
		j.t.Fatalf("diag_messages of job %s: %v in qstat, accounting has %s", j.id, told, record)
	}
	var inQstat, inRecord map[string]string
	must.NoError(j.t, json.Unmarshal([]byte(strings.Trim(told.(string), "'")), &inQstat))
	must.NoError(j.t, json.Unmarshal([]byte(strings.Trim(match[1], "'")), &inRecord))
	must.Equal(j.t, fmt.Sprintf("diag_messages of job %s (-qstat +accounting)", j.id), inQstat, inRecord)
	return inQstat
}

func TestKillForLackOfMemoryReachesQstatAndAccountingWithAllUsage(t *testing.T) {
	j := qsub(t, "alice", small(nodes[0]), tooMuch)
	must.Equal(t, "", map[string]string{nodes[0]: oomText}, j.diagMessages())
	// Two, if an exechost_periodic ran beside the epilogue: neither knows the other's answer.
	if lines := j.momLog(nodes[0], "hookhost: "+oomText); lines < 1 || lines > 2 {
		t.Errorf("%d lines in mom_logs", lines)
	}
	fine := qsub(t, "alice", small(nodes[0]), "true")
	if d := fine.diagMessages(); d != nil {
		t.Errorf("of a job that nothing went wrong in: %v", d)
	}
}

// A job may go on for days after a kill. exechost_periodic comes several times meanwhile.
func TestKillIsALineOfMoMsLogOnceWhileTheJobRuns(t *testing.T) {
	settings(t, "[memory]\noom_group = false", nodes[0])
	j := qsub(t, "alice", small(nodes[0]), tooMuch+"; exec sleep 1000")
	eventually(t, "MoM's log has the kill", func() bool {
		return j.momLog(nodes[0], "hookhost: "+oomText) > 0
	})
	twicePeriodic(t, nodes[0])
	j.deleted()
	must.Equal(t, "lines in mom_logs", 1, j.momLog(nodes[0], "hookhost: "+oomText))
}

func TestKillOnASisterReachesQstatAndAccounting(t *testing.T) {
	needNodes(t, 2)
	for name, tt := range map[string]struct {
		script string
		want   map[string]string
	}{
		"on the sister":          {"/opt/pbs/bin/pbsdsh -n 1 -- " + tooMuch, map[string]string{"node2": oomText}},
		"on the mother superior": {tooMuch, map[string]string{"node1": oomText}},
		"on both": {"/opt/pbs/bin/pbsdsh -- " + tooMuch,
			map[string]string{"node1": oomText, "node2": oomText}},
		"nowhere": {"true", map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			j := qsub(t, "alice", "-l select=1:ncpus=1:mem=64mb:host=node1+1:ncpus=1:mem=64mb:host=node2", tt.script)
			must.Equal(t, "", tt.want, j.diagMessages())
		})
	}
}

func TestUsageOutlivesAServerThatDoesNotKnowDiagMessages(t *testing.T) {
	const forget = "qselect -x -s EF | xargs -r qdel -x; qmgr -c 'delete resource diag_messages'"
	const list = "qmgr -c 'list resource' | grep -x 'Resource diag_messages' || :"
	knows := func(node string) bool { return on(t, node, "grep ^diag_messages "+resourcedef+" || :") != "" }
	t.Cleanup(func() {
		on(t, nodes[0], "hookhost openpbs install")
		for _, node := range nodes {
			eventually(t, node+" has been told of diag_messages", func() bool { return knows(node) })
		}
	})
	// The server keeps a resource that a job in its history has.
	eventually(t, "the server forgets diag_messages", func() bool {
		return run(nodes[0], forget) == nil
	})
	for _, node := range nodes {
		eventually(t, node+" has been told that there is none", func() bool { return !knows(node) })
	}

	j := qsub(t, "alice", small(nodes[0]), tooMuch)
	if d := j.diagMessages(); d != nil {
		t.Errorf("the server does not know diag_messages, and has %v", d)
	}
	if report := on(t, nodes[0], "hookhost report "+j.id); !strings.Contains(report, oomText) {
		t.Errorf("report: %s", report)
	}
	if doctor := on(t, nodes[0], "hookhost doctor || :"); !strings.Contains(doctor, "PBS resource diag_messages") {
		t.Errorf("doctor says nothing of diag_messages: %s", doctor)
	}

	// exechost_startup has the server make it.
	for _, node := range nodes {
		on(t, node, hangUp)
	}
	eventually(t, "the server knows diag_messages", func() bool { return on(t, nodes[0], list) != "" })
	eventually(t, nodes[0]+" has been told so", func() bool { return knows(nodes[0]) })
	if doctor := on(t, nodes[0], "hookhost doctor || :"); strings.Contains(doctor, "diag_messages") {
		t.Errorf("doctor: %s", doctor)
	}
	j = qsub(t, "alice", small(nodes[0]), tooMuch)
	must.Equal(t, "", map[string]string{nodes[0]: oomText}, j.diagMessages())
}
