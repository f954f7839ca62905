//go:build openpbs

package openpbs_test

import (
	"fmt"
	"strings"
	"testing"
)

// A user's process outside of his job that holds the end of one of its processes is killed. The
// node is free for the next job. The call is ptrace(PTRACE_SEIZE) with PTRACE_O_TRACEEXIT, on
// x86-64.
func TestTracerOutsideOfAJobHoldsNeitherItsEndNorTheNode(t *testing.T) {
	node, gate := nodes[0], "/tmp/gate.tracer"
	momConfig(t, node, "")
	as(t, "alice", node, "mkfifo "+gate)
	t.Cleanup(func() { output("alice", node, "rm "+gate) })
	for _, held := range []string{"sleep", "bash"} { // a child of the job's script, and the script itself
		t.Run(held, func(t *testing.T) {
			j := qsub(t, "alice", small(node), "sleep 600 & read < "+gate)
			j.running()
			find := "pgrep -u alice -x sleep"
			if held == "bash" {
				find = "ps -o ppid= -p $(pgrep -u alice -x sleep)"
			}
			tracer := as(t, "alice", node, fmt.Sprintf(`until pgrep -u alice -x sleep >/dev/null; do sleep 0.1; done; held=$(%s)
setsid -f perl -e 'syscall(101, 0x4206, $ARGV[0] + 0, 0, 0x40) == 0 or die "$!"; sleep 600' $held </dev/null >/dev/null 2>&1
until grep -q '^TracerPid:.*[1-9]' /proc/$(echo $held)/status; do sleep 0.1; done; pgrep -u alice -x perl`, find))
			t.Cleanup(func() { output("root", node, "kill -9 "+tracer) })
			if held == "sleep" {
				as(t, "alice", node, "echo >"+gate)
			} else {
				on(t, node, "qdel "+j.id)
			}
			j.ended()
			if lives, _ := output("root", node, "kill -0 "+tracer+" && echo lives"); lives != "" {
				t.Errorf("the tracer %s lives", tracer)
			}
			said := "killed pid " + tracer + " (\"perl\")"
			if notes := j.notes(node); !strings.Contains("\n"+strings.Join(notes, "\n"), "\n"+said) {
				t.Errorf("notes %q", notes)
			}
			if state := vnodes(t, node)[node].State; strings.Contains(state, "offline") {
				t.Errorf("%s is %s", node, state)
			}
		})
	}
}
