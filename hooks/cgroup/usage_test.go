package main

import (
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// A measurement counts in the next one, though no sample of the watch was in between.
func TestMeasuredMemoryNeverFalls(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		const id = "1.srv"
		n.begin(id, asks("ncpus=1", "mem=1gb"))
		measured := func() (mem int64) {
			u, _, err := n.measure(n.cgroup(id), n.state(id))
			if must.NoError(t, err); u.MemBytes != nil {
				mem = *u.MemBytes
			}
			return mem
		}
		n.launch(id)
		must.Eventually(t, "the first sample", func() bool {
			u, err := n.cgroup(id).Usage()
			return err == nil && u.MemPeak != nil
		})
		n.unwatch(id)
		pid := n.launch(id)
		k.Charge(pid, kernfstest.Memory{Anon: 100 * mib})
		must.Equal(t, "mem", int64(100*mib), measured()/mib*mib)
		k.Exit(pid)
		k.Charge(n.launch(id), kernfstest.Memory{File: 50 * mib}) // now there is less to be inferred
		must.Equal(t, "mem", int64(100*mib), measured()/mib*mib)
		n.restart()
		must.Equal(t, "mem of another hook", int64(100*mib), measured()/mib*mib)
	})
}
