//go:build openpbs

package openpbs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// pruning is a hook of the site that has a job start on a part of its vnodes. release_nodes of
// OpenPBS 23.06 gives back the job without counting the reference, and pbs_python crashes: the hook
// counts it.
const pruning = `import ctypes
import pbs
e = pbs.event()
job = e.job
ctypes.pythonapi.Py_IncRef(ctypes.py_object(job))
if job.in_ms_mom() and job.release_nodes(keep_select="%s") is None:
    e.reject("the vnodes are not released")
`

// refusing is a hook of the site that refuses execjob_resize on nodes with a file /run/refuse.
const refusing = `import os
import pbs
if os.path.exists("/run/refuse"):
    pbs.event().reject("no resize here")
`

func TestJobThatIsPrunedAtItsLaunchKeepsOnlyTheRest(t *testing.T) {
	vnodePerSocket(t, "", nodes...)
	for _, c := range []struct {
		name   string
		nodes  int
		chunks string
		keep   string
		node   string // of which a vnode is released
	}{
		{"on the mother superior", 1, "2:ncpus=1:mem=100mb:host=node1", "1:ncpus=1:mem=100mb:host=node1", "node1"},
		{"on a sister", 2, "1:ncpus=1:mem=100mb:host=node1+2:ncpus=1:mem=100mb:host=node2",
			"1:ncpus=1:mem=100mb:host=node1+1:ncpus=1:mem=100mb:host=node2", "node2"},
		{"the whole sister", 2, "1:ncpus=1:mem=100mb:host=node1+2:ncpus=1:mem=100mb:host=node2",
			"1:ncpus=1:mem=100mb:host=node1", "node2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			needNodes(t, c.nodes)
			newSiteHook(t, "prune", "execjob_launch", 1, fmt.Sprintf(pruning, c.keep))
			options := "-W tolerate_node_failures=job_start -l place=vscatter -l select=" + c.chunks
			j := qsub(t, "alice", options, "sleep 1000")
			kept := j.running().ExecVnode
			if got, want := strings.Count(kept, "("), strings.Count(c.keep, "host="); got != want {
				t.Fatalf("exec_vnode after the launch: %s, want %d chunks", kept, want)
			}
			free := c.node + "[0]"
			if strings.Contains(kept, free) {
				free = c.node + "[1]"
			}
			for _, node := range nodes[:c.nodes] {
				has := strings.Contains(kept, node+"[")
				// A sister learns of it while the program starts.
				if what := "exec_vnode " + kept + ": job " + j.id + " has what it kept of " + node; !has {
					eventually(t, what, func() bool { return len(j.cgroups(node)) == 0 })
				} else {
					eventually(t, what, func() bool { return len(j.read(node, "cpuset.cpus", "cpuset.cpus")) == 1 })
				}
			}
			next := qsub(t, "alice", "-l select=1:ncpus=1:mem=100mb:vnode="+free, "sleep 1000")
			next.running()
			next.forced()
			j.forced()
		})
	}
}

// Each of the two jobs has a mother superior of its own, and the nodes get new MoMs afterwards. A
// MoM of OpenPBS 23.06 that had a resize refused crashes in each later hook, in its child before
// exec. The crashes begin after a second refusal, or when the other MoM is killed. The same
// happens with any other hook in place of hookhost's.
func TestResizeThatASiteHookRefusesRequeuesTheJob(t *testing.T) {
	needNodes(t, 2)
	t.Cleanup(func() {
		for _, node := range nodes {
			on(t, node, "kill -KILL $("+momPid+")")
			must.NoError(t, momIsUp(node, goesOn))
		}
	})
	vnodePerSocket(t, "", nodes...)
	newSiteHook(t, "prune", "execjob_launch", 1, fmt.Sprintf(pruning, "2:ncpus=1:mem=100mb"))
	newSiteHook(t, "refuse", "execjob_resize", 1, refusing)
	for _, c := range []struct{ name, head, sister, refuses string }{
		{"on a sister", "node1", "node2", "node2"},
		{"on the mother superior", "node2", "node1", "node2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() {
				output("root", c.refuses, "rm -f /run/refuse")
				output("root", nodes[0], "qmgr -c 'set server scheduling = true'")
			})
			on(t, c.refuses, "touch /run/refuse")
			j := qsub(t, "alice", "-W tolerate_node_failures=job_start -l place=vscatter "+
				"-l select=1:ncpus=1:mem=100mb:host="+c.head+"+2:ncpus=1:mem=100mb:host="+c.sister, "sleep 1000")
			j.started()
			qmgr(t, "set server scheduling = false") // so that it stays in the queue
			eventually(t, "job "+j.id+" is queued again", func() bool {
				return j.attributes().State == "Q"
			})
			j.gone()
			on(t, nodes[0], "qdel "+j.id)
		})
	}
}
