package main_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// roomFor is a [memory] by which all jobs together have so many bytes.
func roomFor(t *testing.T, bytes int64) string {
	t.Helper()
	var total int64
	text, err := os.ReadFile("/proc/meminfo")
	must.NoError(t, err)
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &total); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("[memory]\nreserve_percent = 0.0\nreserve_amount = \"%db\"\n", total<<10-bytes)
}

// Two jobs that ask for no mem do not take what is kept from jobs: the larger one is killed, and
// told why. On an emulated cpu the kernel may look for a second victim before the first has given
// back its memory. The node's other processes are none of their victims, since the kernel kills
// below the limit alone.
func TestTwoJobsWithoutMemLeaveTheReserve(t *testing.T) {
	for _, how := range []string{"cgroup", "rss"} {
		t.Run(how, func(t *testing.T) {
			n := newNode(t, roomFor(t, 400*mib)+fmt.Sprintf("enforce = %q", how))
			n.serve()
			const hold = `import sys; x = bytearray(250 << 20); print("held", flush=True); sys.stdin.read()`
			hog := func(id string) []string {
				return []string{"run", "--job", id, "--report=json", "-l", "select=1:ncpus=1", "--", "python3",
					"-c", hold}
			}
			var second result
			first := loggedKill(func() result {
				first := n.start(hog("1.first")...)
				second = n.hookhost(hog("2.second")...)
				must.NoError(t, first.stdin.Close()) // it ends, if it lives
				if err := first.wait(); err == nil { // it is the larger one of the two
					t.Error("neither job was killed")
				}
				return result{stderr: first.stderr.String()}
			})
			for _, b := range []struct {
				killed bool
				result
			}{{true, first}, {inGuest() && second.status != 0, second}} {
				var status, kills int64
				if b.killed {
					status, kills = 265, 1
				}
				r := b.report(t)
				if r.ExitStatus == nil || int64(*r.ExitStatus) != status {
					t.Errorf("job %s: exit status %v, want %d: %s", r.Job, r.ExitStatus, status, b.stderr)
				}
				for _, h := range r.Hosts {
					if h.OOMKills == nil || *h.OOMKills != kills {
						t.Errorf("job %s: kills %v, want %d", r.Job, h.OOMKills, kills)
					}
				}
				const words = "Cgroup mem limit of all jobs exceeded: Killed process"
				if got := strings.Contains(b.stderr, words); got != b.killed {
					t.Errorf("job %s: stderr %q; has %q: %t", r.Job, b.stderr, words, got)
				}
			}
		})
	}
}

// Jobs that fork without end leave tasks to the node and to each other.
func TestForksOfJobsLeaveTasksToTheNode(t *testing.T) {
	total := nodeTasks(t)
	percent := 100 - 100*900/float64(total) // some 900 for all
	all := total - int64(float64(total)*percent/100)
	n := newNode(t, fmt.Sprintf("[pids]\nmax = 600\nreserve_percent = %v\n", percent))
	n.serve()
	const bomb = `
import os, sys, time
n = 1
try:
    while n < 3000: # should nothing bound them
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        n += 1
except BlockingIOError:
    pass
print(n, flush=True)
sys.stdin.read()
`
	var sum int64
	for _, id := range []string{"1.bomb", "2.bomb"} {
		b := n.start("run", "--job", id, "--report=none", "-l", "select=1:ncpus=1", "--", "python3", "-c", bomb)
		var tasks int64
		fmt.Sscan(b.output(), &tasks)
		if tasks < 10 {
			t.Errorf("job %s has %d tasks only: %s", id, tasks, b.stderr.String())
		}
		sum += tasks
		defer b.wait()
		defer b.stdin.Close()
	}
	if sum > all {
		t.Errorf("two jobs have %d tasks, want %d at most", sum, all)
	}
}

// The node's cpus are kept from every job, also from one without cpus. A job that has begun keeps
// its cpu, whatever a reload excludes.
func TestJobsLeaveTheNodeItsCpus(t *testing.T) {
	all := kernfs.IDSet{}
	for cpu := range online(t) {
		all = all.Union(kernfs.IDs(cpu))
	}
	if all.Len() < 2 {
		kernfstest.Elsewhere(t, "cpus are %s", all)
	}
	const excluding = "[cpuset]\nuse_hyperthreads = true\nexclude_cpus = %q\n"
	n := newNode(t, fmt.Sprintf(excluding, "0"))
	n.serve()
	job := func(id, ncpus string) (b *background, pid int) {
		b = n.start("run", "--job", id, "--report=none", "-l", "select=1:ncpus="+ncpus, "--", "sh", "-c",
			"echo $$; read x; exit 0")
		fmt.Sscan(b.output(), &pid)
		return b, pid
	}
	none, pid := job("1.none", "0")
	left := all.Minus(kernfs.IDs(0))
	must.Equal(t, "cpus of a job without cpus", left.String(), allowedCPUs(t, pid))
	one, first := job("2.one", "1")
	had := allowedCPUs(t, first)
	if had == "0" || strings.ContainsAny(had, ",-") {
		t.Errorf("a job with one cpu runs on %s", had)
	}
	r := n.hookhost("run", "-l", fmt.Sprint("select=1:ncpus=", all.Len()), "--", "true")
	if r.status != 125 || !strings.Contains(r.stderr, fmt.Sprintf("exceeds ncpus available (%d)", left.Len())) {
		t.Errorf("a job that asks for all cpus: status %d, stderr %q", r.status, r.stderr)
	}

	n.write("hookhost.toml", fmt.Sprintf("[cgroup]\nprefix = %q\n"+excluding, n.prefix, had))
	must.NoError(t, syscall.Kill(n.owner(), syscall.SIGHUP))
	must.Eventually(t, "the cpu of before is for jobs", func() bool { return allowedCPUs(t, pid) == all.String() })
	must.Equal(t, "cpus of a job after a reload", had, allowedCPUs(t, first))
	other, second := job("3.other", "1")
	if got := allowedCPUs(t, second); got == had || strings.ContainsAny(got, ",-") {
		t.Errorf("a job with one cpu runs on %s, beside one on %s", got, had)
	}
	for _, b := range []*background{none, one, other} {
		must.NoError(t, b.stdin.Close())
		must.NoError(t, b.wait())
	}
}

// nodeTasks is how many tasks the node can have.
func nodeTasks(t *testing.T) (least int64) {
	t.Helper()
	for _, file := range []string{"pid_max", "threads-max"} {
		text, err := os.ReadFile("/proc/sys/kernel/" + file)
		must.NoError(t, err)
		var most int64
		if _, err := fmt.Sscan(string(text), &most); err != nil {
			t.Fatal(err)
		}
		if least == 0 || most < least {
			least = most
		}
	}
	return least
}
