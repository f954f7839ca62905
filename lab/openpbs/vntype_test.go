//go:build openpbs

package openpbs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

const vntypeFile = pbsHome + "/mom_priv/vntype"

// inForce waits until the daemon of a node has what its files say.
func inForce(t *testing.T, node string) {
	t.Helper()
	eventually(t, "the configuration of "+node+" is in force", func() bool {
		return strings.Contains(on(t, node, "hookhost doctor || :"), "the daemon uses")
	})
}

// setVntype writes the vntype of a node, "" for none, has MoM run exechost_startup, and waits until
// the daemon goes by it.
func setVntype(t *testing.T, node, vntype string) {
	t.Helper()
	on(t, node, fmt.Sprintf("echo '%s' >%s; %s", vntype, vntypeFile, hangUp))
	inForce(t, node)
}

// withVntype is setVntype until the end of the test.
func withVntype(t *testing.T, node, vntype string) {
	t.Helper()
	t.Cleanup(func() {
		setVntype(t, node, "")
		on(t, nodes[0], "qmgr -c 'unset node "+node+" resources_available.vntype'")
	})
	setVntype(t, node, vntype)
}

// serverVntype is what the server has for a node.
func serverVntype(t *testing.T, node string) string {
	t.Helper()
	return on(t, nodes[0], "pbsnodes -v "+node+" | sed -n 's/.*resources_available.vntype = //p'")
}

// confined reports whether a job on a node is in a cgroup of its own. MoM's log has a line of each
// job that is not.
func confined(t *testing.T, node string) bool {
	t.Helper()
	j := qsub(t, "alice", small(node), "exec sleep 1000")
	j.running()
	is := len(j.cgroups(node)) > 0
	j.deleted()
	lines := map[bool]int{false: 1}[is]
	must.Equal(t, "lines of an unconfined job in mom_logs", lines, j.momLog(node, "hookhost: not confined: "))
	return is
}

const notOnNoCgroups = "[host]\nenabled = \"vntype not in: no_cgroups\""

func TestNodeWithAnExcludedVntypeLeavesItsJobsAlone(t *testing.T) {
	excluded := nodes[len(nodes)-1]
	sendConfiguration(t, notOnNoCgroups)
	withVntype(t, excluded, "no_cgroups")
	must.NoError(t, restartDaemon(excluded)) // which goes by the vntype before MoM sends an event about the node
	if said := on(t, excluded, "hookhost doctor || :"); !strings.Contains(said, "no_cgroups, from "+vntypeFile) {
		t.Errorf("doctor does not say where the vntype is from: %s", said)
	}
	for _, node := range nodes {
		if confined(t, node) != (node != excluded) {
			t.Errorf("%s: a job is confined: %t, with the vntype excluded on %s", node, node == excluded, excluded)
		}
	}
	setVntype(t, excluded, "plain")
	if !confined(t, excluded) {
		t.Errorf("%s: a job is not confined after the vntype has changed", excluded)
	}
}

func TestVntypeOfQmgrAloneIsNotTheNodes(t *testing.T) {
	node := nodes[len(nodes)-1]
	settings(t, notOnNoCgroups, node)
	withVntype(t, node, "")
	on(t, nodes[0], "qmgr -c 'set node "+node+" resources_available.vntype = no_cgroups'")
	on(t, node, hangUp)
	said := strings.Join(strings.Fields(on(t, node, "hookhost doctor || :")), " ")
	if !strings.Contains(said, "conditions on vntype read __UNKNOWN__") {
		t.Errorf("doctor does not say that the vntype is not known: %s", said)
	}
	if !confined(t, node) {
		t.Errorf("%s: a job is not confined, and only the server knows the vntype", node)
	}
	if got := serverVntype(t, node); got != "no_cgroups" {
		t.Errorf("the server has the vntype %q now", got)
	}
}

func TestServerLearnsTheVntypeAndEachChangeOfIt(t *testing.T) {
	node := nodes[len(nodes)-1]
	on(t, nodes[0], "qmgr -c 'set node "+node+" resources_available.vntype = other'")
	for _, vntype := range []string{"fat", "thin"} { // MoM repeats fat to hooks, and the file counts
		withVntype(t, node, vntype)
		eventually(t, "the server has the vntype "+vntype, func() bool {
			return serverVntype(t, node) == vntype
		})
	}
}
