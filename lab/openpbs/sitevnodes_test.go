//go:build openpbs

package openpbs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// siteVnodes has a site define the vnodes of its nodes: two of each, with all that the node has to
// give. names are those of the nodes' vnodes.
func siteVnodes(t *testing.T, names map[string][2]string) {
	t.Helper()
	for node, vnodes := range names {
		t.Cleanup(func() { // MoM lists a vnode that it has read once until it is started again
			must.NoError(t, run(node, "pbs_mom -s remove site; kill -KILL $("+momPid+")"))
			for _, vnode := range vnodes {
				on(t, nodes[0], "qmgr -c 'delete node "+vnode+"'")
			}
			must.NoError(t, momIsUp(node, goesOn))
			eventually(t, node+" has its cpus again", func() bool {
				return strings.Contains(on(t, nodes[0], "pbsnodes -v "+node), "resources_available.ncpus = 2")
			})
		})
		definition := "$configversion 2\n"
		for _, vnode := range vnodes {
			const has = "%[1]s: resources_available.ncpus = 1\n%[1]s: resources_available.mem = 4gb\n"
			definition += fmt.Sprintf(has, vnode)
		}
		write(t, node, "/run/site.vnodes", definition)
		must.NoError(t, run(node, "pbs_mom -s insert site /run/site.vnodes"))
		must.NoError(t, causes(node, hangUp, "event=exechost_startup"))
		for _, vnode := range vnodes {
			must.NoError(t, until(nodes[0], "pbsnodes -v '"+vnode+"' | grep -q 'state = free'"))
		}
		eventually(t, node+" gives its cpus by them alone", func() bool {
			return strings.Contains(on(t, nodes[0], "pbsnodes -v "+node), "resources_available.ncpus = 0")
		})
	}
}

// holds asserts what a job has on a node.
func (j *job) holds(node string, cpus int, mem string) {
	j.t.Helper()
	if got := j.read(node, "memory.limit_in_bytes", "memory.max"); got != mem {
		j.t.Errorf("memory of job %s on %s: %s, want %s", j.id, node, got, mem)
	}
	list := j.read(node, "cpuset.cpus", "cpuset.cpus")
	if want := map[int]bool{1: len(list) == 1, 2: list == "0-1"}; !want[cpus] {
		j.t.Errorf("cpus of job %s on %s: %s, want %d", j.id, node, list, cpus)
	}
}

// TestJobsOnVnodesOfTheSitesNames runs jobs on vnodes that are not named after their nodes, with
// the shim and with the stand-in.
func TestJobsOnVnodesOfTheSitesNames(t *testing.T) {
	needNodes(t, 2)
	siteVnodes(t, map[string][2]string{"node1": {"rack", "vnodeA[0]"}, "node2": {"blade", "vnode1[0]"}})
	const mb100, mb200 = "104857600", "209715200"
	for _, c := range []struct{ name, before, after string }{
		{"the shim", ":", ":"},
		{"the stand-in", "hookhost openpbs install --native", "hookhost openpbs uninstall --native"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, node := range nodes {
				t.Cleanup(func() { output("root", node, c.after) })
				on(t, node, c.before)
			}
			wait, release := hold(t)
			one := qsub(t, "alice", "-l select=1:ncpus=1:mem=100mb:vnode=blade", spin(1.5, 1)+"; "+wait+"; sleep 2")
			one.running()
			one.holds("node2", 1, mb100)
			release()
			used := one.succeeds()
			if cput := fmt.Sprint(used.ResourcesUsed["cput"]); cput == "00:00:00" || used.RunCount != 1 {
				t.Errorf("cput %s after %d runs", cput, used.RunCount)
			}
			one.gone()

			const chunk = "1:ncpus=1:mem=100mb:vnode="
			several := qsub(t, "alice", "-l place=free -l select="+chunk+"rack+"+chunk+"blade+"+chunk+"vnode1[0]",
				"/opt/pbs/bin/pbsdsh -- /bin/cat /proc/self/cgroup; sleep 1000")
			several.running()
			several.holds("node1", 1, mb100)
			several.holds("node2", 2, mb200)
			on(t, nodes[0], "pbs_release_nodes -j "+several.id+" 'vnode1[0]'")
			eventually(t, "node2 has a vnode less of the job", func() bool {
				return several.read("node2", "memory.limit_in_bytes", "memory.max") == mb100
			})
			several.holds("node1", 1, mb100)
			several.holds("node2", 1, mb100)
			on(t, nodes[0], "pbs_release_nodes -j "+several.id+" blade")
			eventually(t, "node2 has nothing of the job", func() bool {
				return len(several.cgroups("node2")) == 0
			})
			several.deleted()
		})
	}
}
