package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// dividing is a job that divides its cgroup as a pilot or a container runtime does. It moves itself
// into one part, and starts a program in another, with less memory. The program uses more.
const dividing = `
cd "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)" || exit 90
mkdir runtime payload || exit 91
echo $$ > runtime/cgroup.procs || exit 92
echo "+memory +pids" > cgroup.subtree_control || exit 93
echo 50M > payload/memory.max || exit 94
[ ! -e payload/memory.swap.max ] || echo 0 > payload/memory.swap.max || exit 95
sh -c 'echo $$ > payload/cgroup.procs && exec python3 -c "x = bytearray(200 << 20)"'
echo "the payload ended with $?"
for f in memory.max pids.max cgroup.max.descendants ../memory.max ../pids.max; do
	(echo max > $f) 2> /dev/null && echo "changed $f"
done
for d in .. ../.. ../../..; do
	(echo $$ > $d/cgroup.procs) 2> /dev/null && echo "left for $d"
done
echo ready
read line
exit 0
`

// The owner of a job limits parts of it on cgroup v2. What runs out of memory there ends alone, and
// the report says so. The limits of the job stay out of reach. A program that is attached
// meanwhile, or left behind, is in the job and ends with it.
func TestDelegateV2(t *testing.T) {
	needV2(t, "memory", "pids")
	n := newNode(t, "delegate = true")
	n.serve()
	if killers, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.kill"); err != nil || len(killers) == 0 {
		kernfstest.Elsewhere(t, "no cgroup.kill, which is in Linux 5.14: %v", err)
	}
	run := []string{"run", "--job", "92.x", "-u", "nobody", "-l", "select=1:ncpus=1:mem=200mb", "--report=json", "--",
		"sh", "-c", dividing}
	const said = "the payload ended with 137\nready\n"
	r := loggedKill(func() result { return n.hookhost(run...) })
	if r.status != 0 || r.stdout != said {
		t.Errorf("status %d, stdout %q, want %q", r.status, r.stdout, said)
	}
	if text := "Cgroup mem limit inside the job exceeded: Killed process "; !strings.Contains(r.stderr, text) {
		t.Errorf("stderr %q has no %q", r.stderr, text)
	}
	job := n.start(run...)
	job.await("ready")
	sleep := exec.Command("sleep", "1000")
	sleep.SysProcAttr = sessionOf(ownerUID)
	must.NoError(t, sleep.Start())
	ended := make(chan error, 1)
	go func() { ended <- sleep.Wait() }()
	if r := n.hookhost("attach", "-j", "92.x", "-p", fmt.Sprint(sleep.Process.Pid)); r.status != 0 {
		t.Errorf("attach: %+v", r)
	}
	at, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", sleep.Process.Pid))
	if err != nil || !strings.HasSuffix(string(at), "/jobs/92.x/outer\n") {
		t.Errorf("the attached program is in %q, %v", at, err)
	}
	for name, h := range job.end(t).Hosts {
		if h.OOMKills == nil || *h.OOMKills != 1 || h.Attached != 1 || h.Kill == nil || h.Kill.Stragglers != 1 {
			t.Errorf("%s: kills %v, attached %d, left %+v; want one each", name, h.OOMKills, h.Attached, h.Kill)
		}
	}
	<-ended
}
