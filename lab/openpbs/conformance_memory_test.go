//go:build openpbs

package openpbs_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// defaults is a configuration of pbs_cgroups with 100 MB for a job that asks for no mem. A job that
// asks for no vmem has as much swap. Its verbs say whether these are enforced.
const defaults = `{"use_hyperthreads": true, "cgroup": {
	"cpuacct": {"enabled": true}, "cpuset": {"enabled": true},
	"memory": {"enabled": true, "default": "100MB", "reserve_amount": "1GB", "swappiness": 0,
		"enforce_default": %t, "exclhost_ignore_default": true},
	"memsw": {"enabled": true, "default": "100MB", "reserve_amount": "10GB",
		"enforce_default": %t, "exclhost_ignore_default": true}}}`

func TestDefaultsOfMemAndVmemAreEnforcedWhereSet(t *testing.T) {
	node := nodes[0]
	settings(t, "", node)
	for _, c := range []struct {
		name       string
		mem, memsw bool
		place      string
		want       int // bytes; 0 is all that jobs may have
	}{
		{"both", true, true, "free", 100 << 20},
		{"mem", true, false, "free", 100 << 20},
		{"vmem", false, true, "free", 0},
		{"none", false, false, "free", 0},
		{"exclhost", true, true, "exclhost", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			change(t, converted(t, fmt.Sprintf(defaults, c.mem, c.memsw), node), node)
			j := qsub(t, "alice", "-l select=1:ncpus=1:host="+node+" -l place="+c.place, "sleep 1000")
			j.running()
			mem := j.bytes(node, "memory.limit_in_bytes", "memory.max")
			if c.want > 0 && mem != c.want {
				t.Errorf("limit of mem: %d, want %d", mem, c.want)
			}
			all := &job{t: t, id: "."} // their parent
			if c.want == 0 {
				if most := all.bytes(node, "memory.limit_in_bytes", "memory.max"); mem != most {
					t.Errorf("limit of mem: %d, and of all jobs %d", mem, most)
				}
			}
			if !c.memsw || c.place == "exclhost" {
				if its, most := j.vmem(node), all.vmem(node); its != most {
					t.Errorf("limit of vmem: %d, and of all jobs %d", its, most)
				}
			}
			// PBS is told of less than what jobs may have, by vnode_hidden_mb, and a moment after
			// exechost_startup.
			if c.want == 0 {
				what := fmt.Sprintf("%s is told to have the %d bytes that the job may have", node, mem)
				eventually(t, what, func() bool {
					all := memTold(t, node)
					return mem >= all && mem <= all+(4<<20)
				})
			}
			j.assertSwap(node, mem, c.memsw && c.place == "free")
			j.forced()
		})
	}
}

func TestJobWithoutMemOrVmemHasTheirDefaults(t *testing.T) {
	node := nodes[0]
	migrated(t, `{"cgroup": {"cpuset": {"enabled": true},
		"memory": {"enabled": true, "default": "96MB"}, "memsw": {"enabled": true, "default": "96MB"}}}`, node)
	j := qsub(t, "alice", "-l select=1:ncpus=1:host="+node, "sleep 1000")
	j.running()
	mem := j.bytes(node, "memory.limit_in_bytes", "memory.max")
	if mem != 96<<20 {
		t.Errorf("limit of mem: %d, want 96 MB", mem)
	}
	j.assertSwap(node, mem, true)
	if cpus := j.read(node, "cpuset.cpus", "cpuset.cpus"); cpus != "0" {
		t.Errorf("cpus of a job with ncpus=1 on an idle node: %s", cpus)
	}
	j.forced()
}

func TestReservedMemoryIsNotOffered(t *testing.T) {
	node := nodes[0]
	var total int
	if _, err := fmt.Sscanf(on(t, node, "grep MemTotal: /proc/meminfo"), "MemTotal: %d kB", &total); err != nil {
		t.Fatal(err)
	}
	for _, mb := range []int{50, 100} {
		t.Run(fmt.Sprintf("%d MB", mb), func(t *testing.T) {
			migrated(t, fmt.Sprintf(`{"cgroup": {"memory": {"enabled": true, "reserve_amount": "%dMB"}}}`, mb), node)
			// vnode_hidden_mb is 1.
			eventually(t, "all but what is reserved is offered", func() bool {
				kept := total<<10 - memTold(t, node)
				return kept >= mb<<20 && kept <= (mb+3)<<20
			})
		})
	}
}

func TestAddressSpaceIsLimitedByPvmemAlone(t *testing.T) {
	node := nodes[0]
	migrated(t, fmt.Sprintf(defaults, true, true), node)
	for _, c := range []struct{ options, want string }{
		{"-l select=1:ncpus=0:mem=400mb:vmem=400mb:host=" + node, "unlimited"},
		{"-l select=1:ncpus=0:mem=400mb:vmem=400mb:host=" + node + " -l pvmem=400mb", "409600"},
	} {
		j := qsub(t, "alice", c.options+" -o /dev/null -e /dev/null", "ulimit -v >limit.$PBS_JOBID")
		j.finished()
		if got := as(t, "alice", node, "cat limit."+j.id); got != c.want {
			t.Errorf("qsub %s: ulimit -v: %s, want %s", c.options, got, c.want)
		}
	}
}

func TestUsageOfARunningJobGrowsInQstat(t *testing.T) {
	momConfig(t, nodes[0], "")
	j := qsub(t, "alice", "-l select=1:ncpus=1:mem=500mb:host="+nodes[0], `python3 - <<END
import time
x = bytearray(200 << 20)
end = time.process_time() + 2
while time.process_time() < end: pass
while True:
    try: open("$PBS_JOBID.more"); break
    except OSError: time.sleep(0.1)
x = None
x = bytearray(400 << 20)
end = time.process_time() + 2
while time.process_time() < end: pass
time.sleep(1000)
END`)
	first := j.atLeast(t, 200<<20, 2)
	as(t, "alice", nodes[0], "touch "+j.id+".more")
	second := j.atLeast(t, 400<<20, first.cput+1)
	if first.mem >= 400<<20 || second.vmem <= first.vmem {
		t.Errorf("usage of a job that grows from 200 MB to 400 MB: first %+v, then %+v", first, second)
	}
	j.forced()
}

func TestParentOfJobsCountsWithItsChildren(t *testing.T) {
	const parent = "/sys/fs/cgroup/memory/pbs_jobs.service"
	if _, err := output("root", nodes[0], "test -d "+parent); err != nil {
		kernfstest.Elsewhere(t, "cgroup v2 always counts so: make test-openpbs")
	}
	for _, dir := range []string{parent, parent + "/jobid"} {
		if got := on(t, nodes[0], "cat "+dir+"/memory.use_hierarchy"); got != "1" {
			t.Errorf("memory.use_hierarchy of %s: %s", dir, got)
		}
	}
}

// atLeast waits until qstat shows at least so much mem and cput of a running job.
func (j *job) atLeast(t *testing.T, mem, cput int) (u struct{ mem, vmem, cput int }) {
	t.Helper()
	what := fmt.Sprintf("qstat shows %d MB and %d s of job %s", mem>>20, cput, j.id)
	eventually(t, what, func() bool {
		used := j.attributes().ResourcesUsed
		var h, m, s int
		fmt.Sscanf(fmt.Sprint(used["mem"]), "%dkb", &u.mem)
		fmt.Sscanf(fmt.Sprint(used["vmem"]), "%dkb", &u.vmem)
		fmt.Sscanf(fmt.Sprint(used["cput"]), "%d:%d:%d", &h, &m, &s)
		u.mem, u.vmem, u.cput = u.mem<<10, u.vmem<<10, h*3600+m*60+s
		return u.mem >= mem && u.cput >= cput
	})
	return u
}

// memTold is the memory that PBS believes a node to have for jobs, in bytes.
func memTold(t *testing.T, node string) int {
	t.Helper()
	return vnodes(t, node)[node].available(t, "mem") << 10
}

// bytes is read for a file with one number.
func (j *job) bytes(node, v1, v2 string) int {
	j.t.Helper()
	text := j.read(node, v1, v2)
	n, err := strconv.Atoi(text)
	if err != nil {
		j.t.Fatalf("%s of job %s: %q", v1, j.id, text)
	}
	return n
}

// vmem returns the job's limit of vmem on a node, in bytes. On cgroup v2 it is the sum of two
// limits, of mem and of swap.
func (j *job) vmem(node string) (sum int) {
	j.t.Helper()
	text := on(j.t, node, fmt.Sprintf("cd /sys/fs/cgroup; "+
		"cat memory/pbs_jobs.service/jobid/%s/memory.memsw.limit_in_bytes 2>/dev/null || "+
		"{ cd pbs_jobs.service/jobs/%[1]s && cat memory.max memory.swap.max; }", j.id))
	for _, limit := range strings.Fields(text) {
		n, err := strconv.Atoi(limit)
		if err != nil {
			j.t.Fatalf("limits of vmem of job %s: %q", j.id, text)
		}
		sum += n
	}
	return sum
}

// assertSwap compares the job's limits of mem and vmem. Nodes of a laboratory have no swap as a
// rule: an enforced limit of vmem is that of mem then.
func (j *job) assertSwap(node string, mem int, enforced bool) {
	j.t.Helper()
	b, err := os.ReadFile("/proc/swaps")
	must.NoError(j.t, err)
	if strings.Count(string(b), "\n") > 1 {
		j.t.Log("this machine has swap: " +
			"limits of vmem are left to TestLimitsFollowRequestDefaultsAndRoom in hooks/cgroup")
		return
	}
	vmem := j.bytes(node, "memory.memsw.limit_in_bytes", "memory.max")
	if enforced && vmem != mem || vmem < mem {
		j.t.Errorf("limit of vmem without swap (enforced: %t): %d, that of mem is %d", enforced, vmem, mem)
	}
}
