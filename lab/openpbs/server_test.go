//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// restartServer restarts the server, and waits until it knows the nodes again. The server has
// forgotten their comments, and no state that somebody set.
func restartServer(t *testing.T) {
	t.Helper()
	on(t, nodes[0], `pid=$(cat `+pbsHome+`/server_priv/server.lock); kill $pid
while kill -0 $pid 2>/dev/null; do sleep 0.1; done; /opt/pbs/sbin/pbs_server </dev/null >/dev/null 2>&1`)
	eventually(t, "the server knows the nodes again", func() bool {
		out, err := output("root", nodes[0], "pbsnodes -a")
		return err == nil && !strings.Contains(out, "down") && !strings.Contains(out, "state-unknown")
	})
}

// Vnodes that are offline for want of a daemon come back with it. An administrator's offline stays,
// whatever the server has forgotten meanwhile.
func TestNodeWithoutADaemonComesBackWithItUnlessAnAdministratorHasPutItOffline(t *testing.T) {
	needNodes(t, 2)
	node := nodes[len(nodes)-1]
	const comment, mark = "Hook hookhost: the daemon does not answer", pbsHome + "/mom_priv/hooks/hookhost.offline"
	marked := func() bool { return strings.Contains(on(t, node, "ls "+mark+" || :"), mark) }
	t.Cleanup(func() {
		output("root", node, startDaemon)
		output("root", nodes[0], "pbsnodes -r "+node+"; qmgr -c 'unset node "+node+" comment'")
	})
	for _, tt := range []struct {
		name    string
		by      string // what an administrator does to the node
		restart bool   // the server's
		comment string // in the end
		offline bool   // likewise
	}{
		{name: "nothing"},
		{name: "the server is restarted", restart: true},
		{name: "an administrator puts it offline", by: "pbsnodes -o", offline: true},
		{name: "the same with a comment", by: "pbsnodes -o -C disk", comment: "disk", offline: true},
		{name: "the same, and the server is restarted", by: "pbsnodes -o", restart: true, offline: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			on(t, node, stopDaemon)
			j := qsub(t, "alice", small(node), "true")
			has := func(state, comment string) func() bool {
				return func() bool {
					v := vnodes(t, node)[node]
					return strings.Contains(v.State, state) && strings.Contains(v.Comment, comment)
				}
			}
			eventually(t, node+" is offline", has("offline", comment))
			if tt.by != "" {
				on(t, nodes[0], tt.by+" "+node)
			}
			if tt.restart {
				restartServer(t)
				eventually(t, node+" is offline with our comment again", has("offline", comment))
			}
			must.NoError(t, run(node, startDaemon))
			eventually(t, "an exechost_periodic is answered", func() bool { return !marked() })
			want := map[bool]string{true: "offline", false: "free"}[tt.offline]
			eventually(t, node+" is "+want, has(want, ""))
			eventually(t, "our comment is gone", func() bool {
				return vnodes(t, node)[node].Comment == tt.comment
			})
			if state := vnodes(t, node)[node].State; state != want {
				t.Errorf("%s is %s in the end", node, state)
			}
			if tt.offline {
				on(t, nodes[0], "pbsnodes -r "+node+"; qmgr -c 'unset node "+node+" comment'")
			}
			j.succeeds()
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
