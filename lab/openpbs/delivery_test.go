//go:build openpbs

package openpbs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// The directory and the program are on each node, as on a file system that all share.
func TestOwnerFindsTheReportInTheSitesDirectory(t *testing.T) {
	needNodes(t, 2)
	const dir, sent = "/run/job-reports", "/run/sent-reports"
	for _, node := range nodes {
		write(t, node, "/usr/local/sbin/take-report", "#!/bin/sh\nexec cat >>"+sent+"/all")
		on(t, node, "chmod 755 /usr/local/sbin/take-report; mkdir -p -m 755 "+dir+"; mkdir -p "+sent+
			"; chmod 777 "+sent)
	}
	settings(t, "[reports]\ndirectory = \""+dir+"\"\ncommand = \"/usr/local/sbin/take-report\"", nodes...)
	j := qsub(t, "alice", "-N told "+twoHosts, "/opt/pbs/bin/pbsdsh -- /bin/true; exit 3")
	j.ended()
	path := dir + "/alice/" + j.id
	eventually(t, "the command has the report", func() bool {
		return on(t, "node1", "grep -cF '\"job\":\""+j.id+"\"' "+sent+"/all || :") == "1"
	})
	var r struct {
		Job        string `json:"job"`
		ExitStatus int    `json:"exit_status"`
		Hosts      map[string]any
	}
	must.NoError(t, json.Unmarshal([]byte(as(t, "alice", "node1", "cat "+path+".json")), &r))
	if r.Job != j.id || r.ExitStatus != 3 || len(r.Hosts) != 2 {
		t.Errorf("%+v", r)
	}
	if page := as(t, "alice", "node1", "cat "+path+".html"); !strings.Contains(page, j.id) {
		t.Errorf("%s", page)
	}
	if _, err := output("bob", "node1", "cat "+path+".json"); err == nil {
		t.Error("bob reads a report of alice's")
	}
	// A sister has only its own part.
	if left := on(t, "node2", "ls -A "+dir+" "+sent); strings.Contains(left, "alice") || strings.Contains(left, "all") {
		t.Errorf("node2 has delivered %s", left)
	}
}
