//go:build openpbs

package openpbs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// restartServer restarts the server, and waits until it knows the nodes again. The server has
// forgotten their comments, and no state that somebody set.
func restartServer(t *testing.T) {
	t.Helper()
	on(t, nodes[0], `pid=$(`+serverPid+`); kill $pid
while kill -0 $pid 2>/dev/null; do sleep 0.1; done`)
	on(t, nodes[0], "{ "+startServer+"; } </dev/null >/dev/null 2>&1")
	eventually(t, "the server knows the nodes again", func() bool {
		out, err := output("root", nodes[0], "pbsnodes -a")
		return err == nil && !strings.Contains(out, "down") && !strings.Contains(out, "state-unknown")
	})
}

// Vnodes that are offline for want of a daemon come back with it. An administrator's offline stays,
// whatever the server has forgotten meanwhile.
func TestNodeWithoutADaemonComesBackWithItUnlessAnAdministratorHasPutItOffline(t *testing.T) {
	threeNodes(t)
	const comment, mark = "Hook hookhost: the daemon does not answer", pbsHome + "/mom_priv/hooks/hookhost.offline"
	forget := func(node string) string { return "pbsnodes -r " + node + "; qmgr -c 'unset node " + node + " comment'" }
	t.Cleanup(func() {
		for _, node := range nodes {
			output("root", node, startDaemon)
			output("root", nodes[0], forget(node))
		}
	})
	type administrator struct {
		does    string // to a node
		comment string // of the node in the end
	}
	for _, tt := range []struct {
		name    string
		restart bool            // the server's
		by      []administrator // one for each node
	}{
		{"the server goes on", false, []administrator{{}, {does: "pbsnodes -o"}, {"pbsnodes -o -C disk", "disk"}}},
		{"the server is restarted", true, []administrator{{}, {does: "pbsnodes -o"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			has := func(node, state, comment string) func() bool {
				return func() bool {
					v := vnodes(t, node)[node]
					return strings.Contains(v.State, state) && strings.Contains(v.Comment, comment)
				}
			}
			var jobs []*job
			for i := range tt.by {
				on(t, nodes[i], stopDaemon)
				jobs = append(jobs, qsub(t, "alice", small(nodes[i]), "true"))
			}
			for i, by := range tt.by {
				eventually(t, nodes[i]+" is offline", has(nodes[i], "offline", comment))
				if by.does != "" {
					on(t, nodes[0], by.does+" "+nodes[i])
				}
			}
			if tt.restart {
				restartServer(t)
				for i := range tt.by {
					eventually(t, nodes[i]+" is offline with our comment again", has(nodes[i], "offline", comment))
				}
			}
			for i := range tt.by {
				must.NoError(t, run(nodes[i], startDaemon))
			}
			for i, by := range tt.by {
				node, what := nodes[i], fmt.Sprintf("%s, %q", nodes[i], by.does)
				eventually(t, what+": an exechost_periodic is answered", func() bool {
					return !strings.Contains(on(t, node, "ls "+mark+" || :"), mark)
				})
				want := map[bool]string{true: "offline", false: "free"}[by.does != ""]
				eventually(t, what+": the node is "+want, has(node, want, ""))
				eventually(t, what+": our comment is gone", func() bool {
					return vnodes(t, node)[node].Comment == by.comment
				})
				if state := vnodes(t, node)[node].State; state != want {
					t.Errorf("%s: the node is %s in the end", what, state)
				}
				if by.does != "" {
					on(t, nodes[0], forget(node))
				}
			}
			for _, j := range jobs {
				j.succeeds()
			}
		})
	}
}

// There qmgr lists no hook, and exits with 0.
func TestCommandsOffTheServersHostSayThatHooksAreChangedThere(t *testing.T) {
	needNodes(t, 2)
	write(t, nodes[1], "/run/site.toml", "")
	for _, command := range []string{"install", "install --dry-run", "uninstall", "config", "config /run/site.toml"} {
		said, err := output("root", nodes[1], "hookhost openpbs "+command+" 2>&1")
		if err == nil || !strings.Contains(said, "(hooks are changed on the host of the PBS server)") {
			t.Errorf("%s: %v, says %q", command, err, said)
		}
	}
}
