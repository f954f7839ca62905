//go:build openpbs

package openpbs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// hookFiles are the hook's files of a folder of PBS's, by their checksums.
func hookFiles(folder string) string {
	return "cd " + pbsHome + "/" + folder + " && sha256sum hookhost.HK hookhost.PY"
}

// available is resources_available of a node as the server has it.
func available(t *testing.T, node, resource string) string {
	t.Helper()
	text := on(t, nodes[0], "pbsnodes -v "+node+" | grep 'resources_available."+resource+" = ' || :")
	_, value, _ := strings.Cut(text, "= ")
	return value
}

// TestInstallAloneTellsTheServerOfVnodes registers the hook anew, while daemons and MoMs run. No
// MoM gets a SIGHUP.
func TestInstallAloneTellsTheServerOfVnodes(t *testing.T) {
	if *here {
		kernfstest.Elsewhere(t, "a MoM that no unit has started: make test-openpbs")
	}
	// A server that has been told the freq of an enabled hook survives that the hook is deleted.
	on(t, nodes[0], "qmgr -c 'set hook hookhost freq = 2'; sleep 3; hookhost openpbs uninstall")
	install := func() error { return run(nodes[0], "hookhost openpbs install --freq 5 2>/run/install.err") }
	t.Cleanup(func() {
		if err := install(); err != nil {
			t.Error(err)
		}
	})
	for _, node := range nodes {
		left := on(t, node, "cd "+pbsHome+"/mom_priv/hooks; ls hookhost.HK hookhost.PY hookhost.CF 2>/dev/null || :")
		if left != "" {
			t.Errorf("%s has %s when uninstall is over", node, left)
		}
		// A MoM that has started without the hook has nothing of what it told before, nor has the
		// server.
		on(t, node, "pid=$("+momPid+`); kill $pid
while kill -0 $pid 2>/dev/null; do sleep 0.1; done`)
		must.NoError(t, run(node, startMoM("")))
		on(t, nodes[0], "qmgr -c 'unset node "+node+" resources_available.vmem'")
		must.NoError(t, restartDaemon(node))
	}
	for _, node := range nodes {
		eventually(t, node+" is free", func() bool {
			return vnodes(t, node)[node].State == "free" // whatever vnodes an earlier test has left
		})
		if value := available(t, node, "vmem"); value != "" {
			t.Fatalf("the server has vmem of %s already: %s", node, value)
		}
	}
	const without = "pbs_mom has not run exechost_startup since it has the hook"
	before := map[string]int{}
	for _, node := range nodes {
		n, err := said(node, without)
		must.NoError(t, err)
		before[node] = n
	}
	// The hook is registered once PBS has deleted the one before.
	eventually(t, "the hook is registered", func() bool { return install() == nil })
	want := on(t, nodes[0], hookFiles("server_priv/hooks"))
	for _, node := range nodes {
		if have := on(t, node, hookFiles("mom_priv/hooks")); have != want {
			t.Errorf("%s has not all of the hook when install is over:\n%s\nwant\n%s", node, have, want)
		}
	}
	for _, node := range nodes {
		eventually(t, "the server is told of "+node, func() bool {
			return available(t, node, "vmem") != ""
		})
		if now, err := said(node, without); err != nil || now == before[node] {
			t.Errorf("the daemon of %s does not say so: %d times, before %d, %v", node, now, before[node], err)
		}
	}
}

func TestInstallNamesTheNodeThatTheHookDoesNotReachAndWaitsForIt(t *testing.T) {
	needNodes(t, 2)
	node, said := nodes[1], filepath.Join(shared(t), "said")
	goOn := "kill -CONT $(" + momPid + ")"
	on(t, node, "kill -STOP $("+momPid+")")
	t.Cleanup(func() {
		on(t, node, goOn)
		on(t, nodes[0], "hookhost openpbs install --order 100")
	})
	over := make(chan error, 1)
	go func() { over <- run(nodes[0], "hookhost openpbs install --order 101 2>"+said) }()
	// The server sends to no node while it waits for an answer to something earlier. So the line
	// may name others, too.
	waits := regexp.MustCompile(`Hook hookhost is on its way to [^\n]*` + node + `[^\n]*\.\n$`)
	eventually(t, "install waits for "+node, func() bool {
		text, err := os.ReadFile(said)
		return err == nil && waits.Match(text)
	})
	select {
	case err := <-over:
		t.Fatalf("install is over before %s has the hook: %v", node, err)
	default:
	}
	on(t, node, goOn)
	must.NoError(t, <-over)
	on(t, node, "grep -x order=101 "+pbsHome+"/mom_priv/hooks/hookhost.HK")
}
