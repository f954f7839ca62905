//go:build openpbs

package openpbs_test

import (
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// Another job holds all cpus of a node, and the server knows nothing of it. A job that it sends
// there is rejected each time, by the shim's answer and by the stand-in's. The server counts no run
// of it, and does not hold it. After ten tries it is sent again only each half minute.
func TestJobWhosePlaceIsHeldWaitsWithoutCountedRuns(t *testing.T) {
	for i, name := range []string{"by the shim", "by the stand-in"} {
		node, native := nodes[i%len(nodes)], i == 1
		t.Run(name, func(t *testing.T) {
			if len(nodes) > 1 { // each has a node to itself
				t.Parallel()
			}
			if native {
				t.Cleanup(func() { output("root", node, "hookhost openpbs uninstall --native") })
				on(t, node, "hookhost openpbs install --native")
			}
			holder := on(t, node, "setsid hookhost run -N holder -l select=1:ncpus=$(nproc):mem=64mb -- sleep 600 "+
				">/dev/null 2>&1 </dev/null & echo $!")
			free := func() { output("root", node, "kill "+holder) }
			t.Cleanup(free)
			eventually(t, "the cpus are held", func() bool {
				out, _ := output("root", node, "hookhost jobs")
				return out != "" && on(t, node, "hookhost jobs | wc -l") != "1"
			})
			j := qsub(t, "alice", small(node), "sleep 1")
			a := j.becomes("waits", func(a attributes) bool { return a.State == "W" })
			must.Equal(t, "runs that count", 0, a.RunCount)
			must.Equal(t, "runs", 11, a.RunVersion)
			free()
			a = j.succeeds()
			must.Equal(t, "runs that count", 1, a.RunCount)
			must.Equal(t, "runs", 12, a.RunVersion)
			j.gone()
		})
	}
}
