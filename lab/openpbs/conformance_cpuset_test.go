//go:build openpbs

package openpbs_test

import (
	"fmt"
	"regexp"
	"testing"
)

func TestJobHasCpusNodesAndMemoryAsItAsked(t *testing.T) {
	node := nodes[0]
	j := qsub(t, "alice", medium(node), "sleep 1000")
	j.running()
	if cpus := j.read(node, "cpuset.cpus", "cpuset.cpus"); cpus != "0" {
		t.Errorf("cpus of a job with ncpus=1 on an idle node: %s", cpus)
	}
	if mems := j.read(node, "cpuset.effective_mems", "cpuset.mems.effective"); mems != "0" {
		t.Errorf("NUMA nodes of the job: %s", mems)
	}
	if mem := j.bytes(node, "memory.limit_in_bytes", "memory.max"); mem != 300<<20 {
		t.Errorf("limit of mem: %d", mem)
	}
	j.forced()
}

func TestTwoJobsHaveDifferentCpus(t *testing.T) {
	node := nodes[0]
	const options = "-l select=1:ncpus=1:mem=300mb:host="
	first, second := qsub(t, "alice", options+node, "sleep 1000"), qsub(t, "alice", options+node, "sleep 1000")
	first.running()
	second.running()
	a, b := first.read(node, "cpuset.cpus", "cpuset.cpus"), second.read(node, "cpuset.cpus", "cpuset.cpus")
	if a == b || len(a) != 1 || len(b) != 1 {
		t.Errorf("cpus of two jobs with ncpus=1 each: %s and %s", a, b)
	}
	first.forced()
	second.forced()
}

func TestNcpusAreCoresWhereSet(t *testing.T) {
	node := nodes[0]
	takenBack(t, node)
	oneCore(t, node)
	const configuration = `{"use_hyperthreads": true, "ncpus_are_cores": true, "cgroup": {"cpuset": {"enabled": true}}}`
	change(t, converted(t, configuration, node), node)
	offered(t, node, node, 1)
	first := qsub(t, "alice", medium(node), "sleep 1000")
	first.running()
	if cpus := first.read(node, "cpuset.cpus", "cpuset.cpus"); cpus != "0-1" {
		t.Errorf("cpus of a job of one core with two threads: %s", cpus)
	}
	second := qsub(t, "alice", medium(node), "sleep 1000")
	second.queued()
	first.forced()
}

func TestVnodesOfSocketsRunAJobForEachHardwareThread(t *testing.T) {
	node := nodes[0]
	vnodePerSocket(t, "[cpuset]\nuse_hyperthreads = true", node)
	offered(t, node, node+"[0]", 1)
	offered(t, node, node+"[1]", 1)
	const options = "-l select=1:ncpus=1:mem=300mb:host="
	first, second := qsub(t, "alice", options+node, "sleep 1000"), qsub(t, "alice", options+node, "sleep 1000")
	for _, j := range []*job{first, second} {
		j.running()
	}
	if a, b := first.read(node, "cpuset.cpus", "cpuset.cpus"), second.read(node, "cpuset.cpus", "cpuset.cpus"); a == b {
		t.Errorf("jobs on two vnodes have the same cpu %s", a)
	}
	qsub(t, "alice", options+node, "sleep 1000").queued()
	first.forced()
	second.forced()
}

func TestExcludedCpusAreNotOffered(t *testing.T) {
	node := nodes[0]
	const configuration = `{"cgroup": {"cpuset": {"enabled": true, "exclude_cpus": [%s]}}}`
	for _, c := range []struct {
		cpus string
		want int
	}{{"", 2}, {"0", 1}} {
		t.Run("exclude_cpus="+c.cpus, func(t *testing.T) {
			migrated(t, fmt.Sprintf(configuration, c.cpus), node)
			offered(t, node, node, c.want)
		})
	}
	t.Run("vnodes of sockets", func(t *testing.T) {
		vnodePerSocket(t, "[cpuset]\nexclude_cpus = '0'", node)
		offered(t, node, node+"[0]", 0)
		offered(t, node, node+"[1]", 1)
	})
}

func TestJobLargerThanAVnodeSpansThemAll(t *testing.T) {
	node := nodes[0]
	vnodePerSocket(t, "", node)
	all := vnodes(t, node)
	mb := (all[node+"[0]"].available(t, "mem") + all[node+"[1]"].available(t, "mem")) >> 10
	j := qsub(t, "alice", fmt.Sprintf("-l select=1:ncpus=1:host=%s:mem=%dmb", node, mb-2), "date")
	j.succeeds()
	more := qsub(t, "alice", fmt.Sprintf("-l select=1:ncpus=1:host=%s:mem=%dmb", node, mb+1024), "date")
	eventually(t, "the scheduler says that there is not so much memory", func() bool {
		return insufficient("mem").MatchString(more.attributes().Comment)
	})
}

// offered waits until PBS believes a vnode of a node to have so many cpus for jobs.
func offered(t *testing.T, node, vnode string, cpus int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s has %d cpus", vnode, cpus), func() bool {
		return vnodes(t, node)[vnode].available(t, "ncpus") == cpus
	})
}

// insufficient is what the scheduler says of a job that asks for more of a resource than there is.
func insufficient(resource string) *regexp.Regexp {
	return regexp.MustCompile("Insufficient amount of resource: " + resource + `\b`)
}
