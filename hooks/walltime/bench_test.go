package main

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

// BenchmarkBatch has a thousand jobs with one process each whose walltime runs out at the same
// moment. It measures the time until the last one has its signal.
func BenchmarkBatch(b *testing.B) {
	const jobs = 1000
	for _, place := range []struct {
		name string
		mode cgroup.Mode
	}{{"all", 0}, {"v1", cgroup.ModeV1}, {"v2", cgroup.ModeV2}} {
		b.Run(place.name, func(b *testing.B) {
			n := newNode(b, place.mode, func(w *config.Walltime) { w.Grace = 10 * seconds })
			var ids []string
			states := map[string][]byte{}
			for i := range jobs {
				id := fmt.Sprintf("%d.srv", i)
				j := n.begin(id, hostapi.Resources{"walltime": "600", "walltime_signal": "CONT@300"})
				n.start(j, 1, "ignore")
				ids, states[id] = append(ids, id), n.jobs[id].State
			}
			for _, part := range []struct {
				name    string
				elapsed time.Duration
				told    string
			}{{"warn", 300 * time.Second, "=>> PBS: walltime: 00:05:00 left of 00:10:00"},
				{"terminate", 600 * time.Second, "=>> PBS: job killed: walltime 600 exceeded limit 600"}} {
				b.Run(part.name, func(b *testing.B) {
					begin := cpuTime(b)
					for b.Loop() {
						for id, state := range states {
							n.jobs[id].State = state
						}
						for id, u := range n.at(part.elapsed, ids...) {
							if len(u.JobStderr) != 1 || u.JobStderr[0] != part.told {
								b.Fatalf("%s: %+v", id, u)
							}
						}
					}
					b.ReportMetric((cpuTime(b)-begin).Seconds()*1000/float64(b.N), "cpu-ms/op")
				})
			}
		})
	}
}

// cpuTime returns the cpu time that this process has used. If others use the machine too, that is
// more reliable than the clock.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	must.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBegin measures what the hook adds to a job's begin.
func BenchmarkBegin(b *testing.B) {
	n := newNode(b, 0, nil)
	req := &hostapi.Request{Event: hostapi.EventBegin, Job: &hostapi.Job{ID: "1.srv",
		ResourceList: hostapi.Resources{"walltime": "600", "walltime_signal": "USR1@300"}}}
	for b.Loop() {
		if _, err := n.ExecjobBegin(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}
