//go:build openpbs

package openpbs_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// unified reports whether a node has all controllers in a v2 tree.
func unified(t *testing.T, node string) bool {
	t.Helper()
	return on(t, node, "stat -fc %T /sys/fs/cgroup") == "cgroup2fs"
}

// mounted has v1 controllers mounted on a node until the test ends. The node gets a cgroup of its
// own as the root, since other nodes of this machine see the same hierarchy. The first mount of a
// hierarchy is made outside of the node: the kernel lets no cgroup namespace make one
// (cgroup1_root_to_use in kernel/cgroup/cgroup-v1.c).
func mounted(t *testing.T, node, controllers string) {
	t.Helper()
	if on(t, node, "grep -c ' - cgroup .*[,=]*"+controllers+"' /proc/self/mountinfo || :") != "0" {
		return
	}
	all, own := "/run/all-"+controllers, os.Getenv("LAB")+"-"+node
	at, outside := "/sys/fs/cgroup/"+controllers, t.TempDir()
	t.Cleanup(func() { // the kernel lets go of a hierarchy when its last mount ends and no cgroup is dying
		time.Sleep(200 * time.Millisecond)
		line := fmt.Sprintf("mount -t cgroup -o %s none %s && umount %[2]s", controllers, outside)
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", line, err, out)
		}
	})
	t.Cleanup(func() {
		on(t, node, fmt.Sprintf("umount %s; find %s/%s -depth -type d -exec rmdir {} +; "+
			"umount %[2]s; rmdir %[1]s %[2]s", at, all, own))
	})
	line := fmt.Sprintf("mount -t cgroup -o %s none %s && mkdir -p %[2]s/%s", controllers, outside, own)
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	line = fmt.Sprintf("mkdir -p %[1]s %[2]s && mount -t cgroup -o %[3]s none %[1]s && mount --bind %[1]s/%[4]s %[2]s",
		all, at, controllers, own)
	_, err := output("root", node, line)
	if out, umount := exec.Command("umount", outside).CombinedOutput(); err != nil || umount != nil {
		t.Fatalf("%v; umount %s: %v: %s", err, outside, umount, out)
	}
}

func TestJobIsInTheControllersThatAreEnabled(t *testing.T) {
	node := nodes[0]
	if unified(t, node) {
		kernfstest.Elsewhere(t, "cgroup v2 has these controllers in one tree, or not at all: make test-openpbs")
	}
	controllers := []string{"net_cls,net_prio", "perf_event"}
	for _, c := range controllers {
		mounted(t, node, c)
	}
	settings(t, `net_cls.enabled = true
net_prio.enabled = true
perf_event.enabled = true`, node)
	wait, release := hold(t)
	j := qsub(t, "alice", small(node), "cat /proc/self/cgroup >cgroups; "+wait)
	j.running()
	for _, c := range append(controllers, "blkio") {
		if on(t, node, "find /sys/fs/cgroup/"+c+" -type d -name '"+j.id+"'") == "" {
			t.Errorf("the job has no cgroup in %s", c)
		}
	}
	release()
	j.finished()
	text := as(t, "alice", node, "cat cgroups; rm cgroups")
	for _, c := range append(controllers, "blkio") {
		if at := lineOf(text, ":"+c+":"); !strings.Contains(at, "/pbs_jobs.service/jobid/"+j.id) {
			t.Errorf("the job's processes are in %q of %s", at, c)
		}
	}
	j.gone()
}

// lineOf is the line of a text that has a word.
func lineOf(text, word string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// A job that began before the configuration named a controller goes on, and ends like any other.
func TestControllerThatIsEnabledUnderAJobEndsNoJob(t *testing.T) {
	node := nodes[0]
	if unified(t, node) {
		kernfstest.Elsewhere(t, "cgroup v2 has no controllers that a job can lack: make test-openpbs")
	}
	mounted(t, node, "perf_event")
	wait, release := hold(t)
	j := qsub(t, "alice", small(node), wait+"; pbs_attach -j $PBS_JOBID true || :")
	j.running()
	settings(t, "perf_event.enabled = true", node)
	other := qsub(t, "alice", small(node), "sleep 1")
	other.succeeds()
	other.gone()
	release()
	j.succeeds()
	j.gone()
}

// With soft_limit a job may use more than its mem, up to its vmem, as long as there is memory.
func TestJobMayUseMoreThanItsSoftLimit(t *testing.T) {
	node := nodes[0]
	settings(t, "memory.soft_limit = true", node)
	wait, release := hold(t)
	j := qsub(t, "alice", "-l select=1:ncpus=1:mem=32mb:vmem=200mb:host="+node,
		"python3 -c 'x = bytearray(100 << 20)' || exit 1; "+wait)
	j.running()
	files := "memory.soft_limit_in_bytes memory.limit_in_bytes"
	if unified(t, node) {
		files = "memory.low memory.max"
	}
	dir := lineOf(strings.Join(j.cgroups(node), "\n"), "") // on v1 that of memory is wanted
	for _, d := range j.cgroups(node) {
		if strings.Contains(d, "/memory/") {
			dir = d
		}
	}
	if got, want := on(t, node, "cd '"+dir+"' && cat "+files), fmt.Sprintf("%d\n%d", 32<<20, 200<<20); got != want {
		t.Errorf("%s of the job: %q, want %q", files, got, want)
	}
	release()
	j.succeeds()
	j.gone()
}

func TestFlagsOfTheCpusetAreSet(t *testing.T) {
	node := nodes[0]
	if unified(t, node) {
		kernfstest.Elsewhere(t, "cgroup v2 has no flags of a cpuset: make test-openpbs")
	}
	settings(t, "cpuset.mem_hardwall = true\ncpuset.memory_spread_page = true", node)
	j := qsub(t, "alice", small(node), "sleep 1000")
	j.running()
	got := on(t, node, "cd /sys/fs/cgroup/cpuset/pbs_jobs.service/jobid/'"+j.id+
		"' && cat cpuset.mem_hardwall cpuset.memory_spread_page")
	if got != "1\n1" {
		t.Errorf("mem_hardwall and memory_spread_page are %q", got)
	}
	j.deleted()
}
