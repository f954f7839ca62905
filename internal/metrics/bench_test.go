package metrics

import (
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/host"
)

// BenchmarkCount is what metrics add to an event with four hooks.
func BenchmarkCount(b *testing.B) {
	m := newMetrics(&node{})
	b.ReportAllocs()
	for b.Loop() {
		m.Event(hostapi.EventAttach, host.Accepted, time.Millisecond)
		for _, hook := range []string{"cgroup", "devices", "mpi", "walltime"} {
			m.Call(hook, host.Accepted, time.Millisecond)
		}
	}
}
