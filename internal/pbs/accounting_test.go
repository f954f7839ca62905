package pbs

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// The file is a server's. It has a job of two hosts, an array of two subjobs, and one out of
// memory. One was requeued, one deleted before it ran, and one exceeded its walltime.
func TestRunsInAccountingAreRead(t *testing.T) {
	text, err := os.ReadFile("testdata/accounting")
	must.NoError(t, err)
	var ids []string
	byID := map[string]JobStatus{}
	for line := range strings.Lines(string(text)) {
		if s, ok := ParseRun(strings.TrimSuffix(line, "\n")); ok {
			ids, byID[s.ID] = append(ids, s.ID), s
		}
	}
	want := []string{"0.node1", "1[1].node1", "1[2].node1", "2.node1", "5.node1", "3.node1", "3.node1"}
	must.Equal(t, "runs", want, ids)
	again := byID["3.node1"]
	must.Equal(t, "the last run", 2, again.RunCount)
	must.Equal(t, "the last run", new(143), again.ExitStatus)
	s := byID["0.node1"]
	usage := s.ResourcesUsed["host_usage"]
	delete(s.ResourcesUsed, "host_usage")
	must.Equal(t, "", JobStatus{ID: "0.node1", Name: "pair", User: "alice", Queue: "workq",
		Project: "_pbs_project_default", Account: "my account", State: "F", Start: time.Unix(1795918610, 0),
		End: time.Unix(1795918628, 0), ExitStatus: new(3), SessionID: 1274, RunCount: 1, ExecHost: "node1/0+node2/0",
		ExecVnode: "(node1:ncpus=1:mem=307200kb)+(node2:ncpus=1:mem=307200kb)",
		ResourceList: map[string]string{"mem": "600mb", "ncpus": "2", "nodect": "2", "place": "free",
			"select": "1:ncpus=1:mem=300mb:host=node1+1:ncpus=1:mem=300mb:host=node2", "walltime": "00:01:00"},
		ResourcesUsed: map[string]string{"cpupercent": "30", "cput": "00:00:04", "diag_messages": "{}",
			"mem": "191404kb", "ncpus": "2", "vmem": "193064kb", "walltime": "00:00:14"}}, s)
	if !strings.HasPrefix(usage, `{"node2": {"cput": 2, `) || !strings.HasSuffix(usage, "]}}") {
		t.Errorf("host_usage %s", usage)
	}
}

// PBS escapes nothing in the values that users choose.
func TestFieldThatAUserForgesIsIgnored(t *testing.T) {
	const end = " jobname=x start=1795918610 end=1795918628 Exit_status=1 resources_used.cput=00:00:07"
	for name, tt := range map[string]struct{ account, user, cput string }{
		"plain":      {`a b`, "alice", "00:00:07"},
		"a quote":    {`a " b`, "alice", "00:00:07"},
		"forged":     {`a" user=bob resources_used.cput=00:00:00 x="`, "", ""},
		"once":       {`a" resources_used.gpu=9 x="`, "alice", "00:00:07"},
		"the same":   {`a" user=alice x="`, "alice", "00:00:07"},
		"open quote": {`a' resources_used.x='`, "alice", "00:00:07"},
	} {
		s, ok := ParseRun(`11/29/2026 02:17:08;E;1.s;user=alice account="` + tt.account + `"` + end)
		if !ok || s.User != tt.user || s.ResourcesUsed["cput"] != tt.cput || s.ExitStatus == nil || *s.ExitStatus != 1 {
			t.Errorf("%s: %t, %+v", name, ok, s)
		}
	}
}

func TestOtherLinesOfAccountingAreNoRuns(t *testing.T) {
	for _, line := range []string{"", "E", "11/29/2026 02:17:08;E;1.s", "11/29/2026 02:17:08;E;1.s;",
		"11/29/2026 02:17:08;E;1.s;user=alice end=soon", "11/29/2026 02:17:46;D;4.node1;requestor=alice@node1",
		"11/29/2026 02:17:08;E;1[].s;user=alice end=1795918628"} {
		if s, ok := ParseRun(line); ok {
			t.Errorf("%q: %+v", line, s)
		}
	}
}

func FuzzParseRun(f *testing.F) {
	f.Add(`11/29/2026 02:17:08;E;1.s;user=alice account="a b" jobname=x end=5 resources_used.h='{"a": 1}' x`)
	f.Fuzz(func(t *testing.T, line string) {
		if s, ok := ParseRun(line); ok && s.End.IsZero() {
			t.Errorf("%+v", s)
		}
	})
}
