//go:build openpbs

package openpbs_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A site's hook crashes at each begin. Its attributes say what that counts against. A comment names
// cause and remedy, and is there again after a restart of the server.
func TestCrashOfAHookCountsAgainstTheNodeTheJobOrNothing(t *testing.T) {
	needNodes(t, 2)
	node := nodes[len(nodes)-1]
	settings(t, "[vnodes]\nonline_nodes_min_delay = '1s'", node)
	program := filepath.Join(shared(t), "misbehave")
	out, err := exec.Command("go", "build", "-o", program, "../../testdata/hooks/misbehave").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	forget := "pbsnodes -r " + node + "; qmgr -c 'unset node " + node + " comment'"
	t.Cleanup(func() {
		output("root", node, "hookhost hook delete crash")
		output("root", nodes[0], forget)
	})
	configure := func(config string) { // starts a new program, whose crashes are counted anew
		write(t, node, "/run/crash.toml", config)
		on(t, node, "hookhost hook import crash application/x-config default /run/crash.toml")
	}
	set := func(attributes string) { on(t, node, "hookhost hook set crash "+attributes) }
	has := func(what, state string, is func(comment string) bool) {
		eventually(t, node+" is "+state+" "+what, func() bool {
			v := vnodes(t, node)[node]
			return v.State == state && is(v.Comment)
		})
	}
	none := func(comment string) bool { return comment == "" }
	const crash = "mode = 'exit'\nalone = true\n"
	on(t, node, "hookhost hook create crash && hookhost hook import crash application/x-executable default "+program)
	configure(crash)

	set("on_defect=nothing")
	qsub(t, "alice", small(node), "true").succeeds()

	held := func(a attributes) bool { return strings.Contains(a.HoldTypes, "s") }
	set("on_defect=job")
	qsub(t, "alice", small(node), "true").becomes("is held", held)
	has("after that", "free", none)

	configure(crash + "# again")
	set("on_defect=node")
	qsub(t, "alice", small(node), "true").becomes("is held", held)
	text := fmt.Sprintf("offlined by hook 'hookhost' due to hook error: crash at execjob_begin: crashed twice: exit "+
		"status 4; see 'hookhost doctor' on %[1]s; then pbsnodes -r %[1]s", node)
	ours := func(comment string) bool { return comment == text }
	has("after the crash", "offline", ours)
	restartServer(t)
	has("with the comment that the server had lost", "offline", ours)
	on(t, nodes[0], forget) // as a server of OpenPBS 22.05 does at its restart
	has("with the state that the server had lost", "offline", ours)
	on(t, nodes[0], "pbsnodes -r "+node)
	has("without the comment", "free", none)
	twicePeriodic(t, node)
	has("still", "free", none)

	// Five crashes in five minutes disable the hook, which harms the next job as well.
	set("on_defect=job on_node_error=node")
	qsub(t, "alice", small(node), "true").becomes("is held", held)
	j := qsub(t, "alice", small(node), "true")
	has("while the hook is disabled", "offline", func(comment string) bool {
		return strings.Contains(comment, "crash at execjob_begin: hook crash: disabled after 5 crashes in 5m") &&
			strings.HasSuffix(comment, "see 'hookhost doctor' on "+node+"; the vnodes return when the hook works")
	})
	configure("mode = ''\nalone = true\n")
	has("when the hook works again", "free", none)
	j.succeeds()
}
