package main

import (
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/must"
)

// BenchmarkEvents measures this hook's part of a job's begin and of each launch. The cgroup already
// exists.
func BenchmarkEvents(b *testing.B) {
	for _, place := range []struct {
		name string
		mode cgroup.Mode
	}{{"v1", cgroup.ModeV1}, {"v2", 0}} {
		b.Run(place.name+"/begin", func(b *testing.B) {
			n := newNode(b, place.mode, eight(), nil)
			n.do(hostapi.EventStartup)
			for b.Loop() {
				b.StopTimer()
				j := n.job("1.srv", a100(0), a100(1))
				b.StartTimer()
				n.do(hostapi.EventBegin, "1.srv")
				b.StopTimer()
				n.do(hostapi.EventEnd, "1.srv")
				must.NoError(b, j.Remove(b.Context()))
				b.StartTimer()
			}
		})
		b.Run(place.name+"/launch", func(b *testing.B) {
			n := newNode(b, place.mode, eight(), nil)
			n.do(hostapi.EventStartup)
			n.job("1.srv", a100(0), a100(1))
			n.do(hostapi.EventBegin, "1.srv")
			for b.Loop() {
				n.do(hostapi.EventLaunch, "1.srv")
			}
		})
	}
}
