package main

import (
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// A user can hold the lock of the directory of the own job, so that its peak is not stored. The
// samples and the end of other jobs do not wait for that. The job's own end reports what the
// samples saw.
func TestHeldDirectoryDelaysNoOtherJob(t *testing.T) {
	n := realNode(t, nil)
	const held, other = "1.srv", "2.srv"
	grows := map[string]actor{}
	for _, id := range []string{held, other} {
		n.do(hostapi.EventBegin, id, asks("ncpus=0", "mem=1gb"))
		grows[id] = startActor(t, n.launches(id), "keep", "104857600")
	}
	peak := func(id string) (stored int64) {
		u, err := n.cgroup(id).Usage()
		if must.NoError(t, err); u.MemPeak != nil {
			stored = *u.MemPeak
		}
		return stored
	}
	must.Eventually(t, "the first samples", func() bool { return peak(held) > 0 && peak(other) > 0 })
	dir := strings.TrimPrefix(n.cgroup(held).MemoryPath(), "/")
	if !n.roots.Cgroup.Exists(dir) { // v1
		dir = "memory/" + dir
	}
	release := kernfstest.HoldLock(t, n.roots.Cgroup.Path(dir))
	grows[held].stdin.Close()
	must.Eventually(t, "a sample of the held job", func() bool { return n.snapshot(held).mem >= 100*mib })
	grows[other].stdin.Close()
	must.Eventually(t, "the other's peak", func() bool { return peak(other) >= 100*mib })
	if stored := peak(held); stored >= 100*mib {
		t.Fatalf("the lock is not held: peak %d", stored)
	}
	ends := func(id string, limit time.Duration) {
		t.Helper()
		start := time.Now()
		u := n.do(hostapi.EventEpilogue, id).Usage
		if took := time.Since(start); took > limit {
			t.Errorf("the epilogue of %s took %v", id, took)
		}
		if *u.MemBytes < 100*mib || u.MemSource != memSampled {
			t.Errorf("mem of %s is %d, %s", id, *u.MemBytes, u.MemSource)
		}
	}
	ends(other, peakWait)
	n.do(hostapi.EventEnd, other)
	ends(held, peakWait+time.Second)
	release()
	n.do(hostapi.EventEnd, held)
	n.want()
}
