//go:build openpbs

package openpbs_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// vnode is what pbsnodes tells of a vnode.
type vnode struct {
	State     string         `json:"state"`
	Comment   string         `json:"comment"`
	Available map[string]any `json:"resources_available"`
}

// vnodes are those of a node, by name. A node that is left out has none.
func vnodes(t *testing.T, node string) map[string]vnode {
	t.Helper()
	var all struct {
		Nodes map[string]vnode `json:"nodes"`
	}
	out := on(t, nodes[0], "pbsnodes -av -F json")
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("pbsnodes: %v in %s", err, out)
	}
	for name := range all.Nodes {
		if name != node && !strings.HasPrefix(name, node+"[") {
			delete(all.Nodes, name)
		}
	}
	return all.Nodes
}

// available is a number that a vnode has of a resource, sizes in kb.
func (v vnode) available(t *testing.T, resource string) int {
	t.Helper()
	var n int
	if _, err := fmt.Sscanf(fmt.Sprint(v.Available[resource]), "%d", &n); err != nil {
		t.Fatalf("resources_available.%s: %v", resource, v.Available[resource])
	}
	return n
}

// twoSockets has a node take its two cpus for a socket each, with 8 GB of memory at each. The
// kernel goes on with one: mem_fences has to be off. hookhost sees it once its settings change.
func twoSockets(t *testing.T, node string) {
	t.Helper()
	t.Cleanup(func() {
		if err := run(node, "umount /sys/devices/system/node /run/two"); err != nil {
			t.Error(err)
		}
	})
	on(t, node, `set -e
d=/run/two; mkdir -p $d; mount -t tmpfs tmpfs $d
echo 0-1 >$d/online; echo 0-1 >$d/has_memory
for i in 0 1; do
	mkdir $d/node$i
	echo $i >$d/node$i/cpulist
	echo "Node $i MemTotal: 8388608 kB" >$d/node$i/meminfo
done
mount --bind $d /sys/devices/system/node`)
}

// oneCore has a node take its two cpus for the two threads of one core. hookhost sees it once its
// settings change.
func oneCore(t *testing.T, node string) {
	t.Helper()
	const lists = "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list " +
		"/sys/devices/system/cpu/cpu1/topology/thread_siblings_list"
	t.Cleanup(func() {
		if err := run(node, "umount "+lists); err != nil {
			t.Error(err)
		}
	})
	on(t, node, "set -e; echo 0-1 >/run/siblings; for f in "+lists+"; do mount --bind /run/siblings $f; done")
}

// vnodePerSocket has a node of two sockets tell PBS of a vnode for each, and waits until they are
// free. Further tables of the configuration are those of toml.
func vnodePerSocket(t *testing.T, toml string, on ...string) {
	t.Helper()
	for _, node := range on {
		// A vnode that MoM no longer tells of stays with the server.
		t.Cleanup(func() {
			for _, i := range "01" {
				_, err := output("root", nodes[0], fmt.Sprintf("qmgr -c 'delete node %s[%c]'", node, i))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	takenBack(t, on...)
	for _, node := range on {
		twoSockets(t, node)
	}
	change(t, "[vnodes]\nvnode_per_numa_node = true\n"+toml, on...)
	for _, node := range on {
		eventually(t, node+" has two vnodes", func() bool {
			v := vnodes(t, node)
			return v[node+"[0]"].State == "free" && v[node+"[1]"].State == "free"
		})
	}
}

// A MoM that is started again no longer lists the vnodes, and the server has them as Stale. They
// have nothing if SIGHUP came first. Otherwise they have what they had, and the scheduler leaves
// them out.
func TestVnodesOfSocketsThatAreTakenBackAreNotCountedBesideTheNode(t *testing.T) {
	node := nodes[len(nodes)-1]
	cpus := func(of ...string) (sum int) {
		for _, node := range of {
			for _, v := range vnodes(t, node) {
				if v.State != "Stale" {
					sum += v.available(t, "ncpus")
				}
			}
		}
		return sum
	}
	before, together := cpus(node), cpus(nodes...)
	for _, hup := range []bool{true, false} {
		t.Run(fmt.Sprintf("SIGHUP first=%t", hup), func(t *testing.T) {
			vnodePerSocket(t, "", node)
			write(t, node, ownFile, "[vnodes]\nvnode_per_numa_node = false")
			if hup {
				must.NoError(t, reconfigure(node))
				eventually(t, "the cpus are counted once", func() bool {
					return cpus(node) == before
				})
			}
			on(t, node, "kill -TERM $("+momPid+")")
			must.NoError(t, run(node, reload))
			must.NoError(t, momIsUp(node, goesOn))
			eventually(t, "so they are after a restart of MoM", func() bool {
				all := vnodes(t, node)
				return all[node+"[0]"].State == "Stale" && all[node+"[1]"].State == "Stale" && cpus(node) == before
			})
			if hup {
				must.Equal(t, "cpus as pbsnodes sums them", fmt.Sprint(before), available(t, node, "ncpus"))
			}
			more := qsub(t, "alice", fmt.Sprintf("-l select=%d:ncpus=1:mem=64mb", together+1), "true")
			short := fmt.Sprintf("Insufficient amount of resource: ncpus (R: %d A: %d ", together+1, together)
			eventually(t, "the scheduler does not count them", func() bool {
				return strings.Contains(more.attributes().Comment, short)
			})
			all := qsub(t, "alice", fmt.Sprintf("-l select=1:ncpus=%d:mem=64mb:host=%s", before, node), "true")
			all.succeeds()
			all.gone()
		})
	}
}
