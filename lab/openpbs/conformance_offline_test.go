//go:build openpbs

package openpbs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

func TestNodeIsOfflineWhileAJobCannotBeKilledAndComesBack(t *testing.T) {
	const frozen = "/sys/fs/cgroup/freezer/frozen"
	node := nodes[0]
	if _, err := output("root", node, "test -d /sys/fs/cgroup/freezer"); err != nil {
		kernfstest.Elsewhere(t, "only the freezer of cgroup v1 holds up a kill: make test-openpbs")
	}
	momConfig(t, node, "") // it looks at its jobs, and kills what is left of one, every few seconds

	const quick = "online_nodes_min_delay = '1s'\n[cgroup]\nkill_timeout = '1s'\n" // of [vnodes]
	for _, c := range []struct {
		name, comment string
		vnodes        []string
		meanwhile     bool // the server is restarted, and an administrator puts the node offline
	}{
		{"one vnode with a comment of the administrator's", "foo bar", []string{node}, false},
		{"a vnode for each socket", "", []string{node, node + "[0]", node + "[1]"}, false},
		{"a server that is restarted, and an administrator's offline", "", []string{node}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if len(c.vnodes) > 1 {
				vnodePerSocket(t, quick, node)
			} else {
				settings(t, "[vnodes]\n"+quick, node)
			}
			t.Cleanup(func() { output("root", nodes[0], "qmgr -c 'unset node "+node+" comment'") })
			if c.comment != "" {
				qmgr(t, fmt.Sprintf(`set node %s comment = "%s"`, node, c.comment))
			}
			j := qsub(t, "alice", medium(node), "sleep 600 & wait")
			j.running()
			// All but the leading shell are frozen, so that MoM sees the job's end.
			t.Cleanup(func() { output("root", node, "echo THAWED >"+frozen+"/freezer.state; sleep 1; rmdir "+frozen) })
			on(t, node, fmt.Sprintf(`set -e
mkdir -p %[1]s; until pid=$(pgrep -u alice -x sleep); do sleep 0.1; done
echo $pid >%[1]s/cgroup.procs; echo FROZEN >%[1]s/freezer.state; until grep -qx FROZEN %[1]s/freezer.state; do sleep 0.1; done`, frozen))
			on(t, nodes[0], "qdel "+j.id)
			states := func(state string) func() bool {
				return func() bool {
					all := vnodes(t, node)
					for _, name := range c.vnodes {
						if !strings.Contains(all[name].State, state) {
							return false
						}
					}
					return true
				}
			}
			eventually(t, node+" is offline", states("offline"))
			comment := func() string { return vnodes(t, node)[node].Comment }
			if c.meanwhile {
				j.finished()
				restartServer(t)
				eventually(t, "the comment is there again", func() bool { return comment() != "" })
				on(t, nodes[0], "pbsnodes -o "+node)
			}
			on(t, node, "echo THAWED >"+frozen+"/freezer.state")
			if c.meanwhile {
				eventually(t, "the comment is gone", func() bool { return comment() == "" })
				if !states("offline")() {
					t.Errorf("%s is not offline any more, as an administrator wants it", node)
				}
				on(t, nodes[0], "pbsnodes -r "+node)
			}
			eventually(t, node+" is back", states("free"))
			if got := comment(); got != c.comment {
				t.Errorf("comment of %s: %q, before it was offline %q", node, got, c.comment)
			}
			j.finished()
			j.vanished() // MoM has sent its end while the job could not be killed
		})
	}
}
