package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/cgroup/cgrouptest"
	"github.com/hookhost/hookhost/internal/must"
)

// crowded is a node with a daemon, and what the kernel itself takes for small jobs on it.
type crowded struct {
	*node
	b      *testing.B
	d      *daemon
	client *api.Client
	floor  *cgrouptest.Floor
}

func newCrowded(b *testing.B) *crowded {
	b.Helper()
	n, d := benchNode(b)
	c := &crowded{node: n, b: b, d: d}
	c.dial()
	c.handle(hostapi.EventBegin, "1.floor")
	floor, err := cgrouptest.NewFloor(n.prefix+".service", "1.floor")
	must.NoError(b, err)
	c.handle(hostapi.EventEnd, "1.floor")
	c.floor = floor
	return c
}

func (c *crowded) dial() {
	c.b.Helper()
	client, err := api.Dial(c.path("run/s"))
	must.NoError(c.b, err)
	c.b.Cleanup(func() { client.Close() })
	c.client = client
}

// handle has the daemon carry out an event of a small job, and returns how long that took. A node
// can have many such jobs: no cpus of their own and little memory.
func (c *crowded) handle(event hostapi.Event, id string) time.Duration {
	req := &hostapi.Request{Event: event, Job: &hostapi.Job{ID: id, Owner: hostapi.Owner{User: "root"},
		MotherSuperior: true,
		ResourceList:   hostapi.Resources{"ncpus": "0", "mem": "4mb", "walltime": "01:00:00"}}}
	if event == hostapi.EventAttach {
		req.PID = 4194300 // nobody's
	}
	start := time.Now()
	out, err := c.client.Handle(context.Background(), req)
	took := time.Since(start)
	if err != nil || out.Reject {
		c.b.Errorf("%s %s: %v %+v", event, id, err, out)
	}
	return took
}

// timed returns how long do takes for a job.
func (c *crowded) timed(do func(id string) error, id string) time.Duration {
	start := time.Now()
	c.noError(do(id))
	return time.Since(start)
}

// noError is must.NoError for all goroutines.
func (c *crowded) noError(err error) {
	if err != nil {
		c.b.Error(err)
	}
}

// each calls do for so many jobs, by so many goroutines, and returns how long all took.
func each(jobs, width int, do func(id string)) time.Duration {
	next := make(chan string)
	var all sync.WaitGroup
	start := time.Now()
	for range width {
		all.Go(func() {
			for id := range next {
				do(id)
			}
		})
	}
	for i := range jobs {
		next <- fmt.Sprintf("%d.bench", i+1)
	}
	close(next)
	all.Wait()
	return time.Since(start)
}

// Benchmark200Begins is 200 begins at one time, until all are answered. The same directories with
// the same limits are made by system calls, two jobs at a time.
func Benchmark200Begins(b *testing.B) {
	const jobs = 200
	c := newCrowded(b)
	var ours, floor []time.Duration
	for b.Loop() {
		ours = append(ours, each(jobs, jobs, func(id string) { c.handle(hostapi.EventBegin, id) }))
		each(jobs, 2, func(id string) { c.handle(hostapi.EventEnd, id) })
		floor = append(floor, each(jobs, 2, func(id string) { c.noError(c.floor.Begin(id)) }))
		each(jobs, 2, func(id string) { c.noError(c.floor.End(id)) })
	}
	cgrouptest.Row(b, "200 begins at once, all of them", ours, floor, "–")
}

// BenchmarkFiftyJobs is one event of 50 jobs that come and go: begin, attach, epilogue and end, as
// the client sees each, beyond the kernel's part. A job's life is a second at most, and so is the
// pause before it. Meanwhile one goroutine does the kernel's part of a job, 20 times a second.
func BenchmarkFiftyJobs(b *testing.B) {
	const jobs, second = 50, 1000
	c := newCrowded(b)
	took := map[hostapi.Event][]time.Duration{}
	floor := map[hostapi.Event][]time.Duration{hostapi.EventAttach: {0}}
	var mu sync.Mutex
	for b.Loop() {
		over := make(chan struct{})
		var raw sync.WaitGroup
		raw.Go(func() {
			for {
				floor[hostapi.EventBegin] = append(floor[hostapi.EventBegin], c.timed(c.floor.Begin, "1.floor"))
				floor[hostapi.EventEpilogue] = append(floor[hostapi.EventEpilogue], c.timed(c.floor.Measure, "1.floor"))
				floor[hostapi.EventEnd] = append(floor[hostapi.EventEnd], c.timed(c.floor.End, "1.floor"))
				select {
				case <-over:
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
		var all sync.WaitGroup
		for i := range jobs {
			id := fmt.Sprintf("%d.bench", i+1)
			all.Go(func() {
				for _, step := range []struct {
					pause int // milliseconds
					event hostapi.Event
				}{
					{i * 37 % jobs * second / jobs, hostapi.EventBegin}, {10, hostapi.EventAttach},
					{i * 23 % jobs * second / jobs, hostapi.EventEpilogue}, {0, hostapi.EventEnd},
				} {
					time.Sleep(time.Duration(step.pause) * time.Millisecond)
					d := c.handle(step.event, id)
					mu.Lock()
					took[step.event] = append(took[step.event], d)
					mu.Unlock()
				}
			})
		}
		all.Wait()
		close(over)
		raw.Wait()
	}
	var beyond, kernel []time.Duration
	for event, all := range took {
		least := cgrouptest.Median(floor[event])
		b.ReportMetric((cgrouptest.Median(all)-least).Seconds()*1000, "beyond-"+string(event)+"-ms")
		for _, d := range all {
			beyond = append(beyond, d-least)
		}
	}
	for event, all := range floor {
		if event != hostapi.EventAttach {
			kernel = append(kernel, all...)
		}
	}
	cgrouptest.Beyond(b, "an event through socket, host and hooks, 50 jobs coming and going, beyond the kernel's part",
		beyond, kernel, "1 / 5 ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPeriodicOf500 is exechost_periodic of a node with 500 jobs. The files of their usage are
// read by system calls alone, too.
func BenchmarkPeriodicOf500(b *testing.B) {
	const jobs = 500
	c := newCrowded(b)
	begin := func(id string) { c.handle(hostapi.EventBegin, id); c.handle(hostapi.EventLaunch, id) }
	each(jobs, 1, begin)
	var ours, floor []time.Duration
	for b.Loop() {
		start := time.Now()
		out, err := c.client.Handle(context.Background(), &hostapi.Request{Event: hostapi.EventPeriodic})
		ours = append(ours, time.Since(start))
		if err != nil || out.Reject {
			b.Fatalf("%v %+v", err, out)
		}
		floor = append(floor, each(jobs, 1, func(id string) { c.noError(c.floor.Measure(id)) }))
	}
	cgrouptest.Row(b, "exechost_periodic, 500 jobs", ours, floor, "–")
	each(jobs, 2, func(id string) { c.handle(hostapi.EventEnd, id) })
}

// BenchmarkThousandJobs is a node with 1,000 jobs, each a sleep. Measured are an event there, the
// programs at rest, and the start of a daemon. Beside the start the jobs' records and the files of
// their usage are read by system calls alone.
func BenchmarkThousandJobs(b *testing.B) {
	const jobs = 1000
	c := newCrowded(b)
	each(jobs, 1, func(id string) {
		c.handle(hostapi.EventBegin, id)
		sleeper := exec.Command("sleep", "10000")
		if err := sleeper.Start(); err != nil {
			b.Error(err)
			return
		}
		b.Cleanup(func() { sleeper.Process.Kill(); sleeper.Wait() })
		out, err := c.client.Handle(context.Background(), &hostapi.Request{
			Event: hostapi.EventLaunch, PID: sleeper.Process.Pid, Progname: "sleep",
			Job: &hostapi.Job{ID: id, Owner: hostapi.Owner{User: "root"}, MotherSuperior: true}})
		if err != nil || out.Reject {
			b.Errorf("launch %s: %v %+v", id, err, out)
		}
	})
	time.Sleep(15 * time.Second) // a thousand begins leave more to sweep
	atRest(b, "1,000 jobs", c.d.programs())
	var event, kernel, ready, reading []time.Duration
	for b.Loop() {
		for range 20 {
			start := time.Now()
			for _, e := range []hostapi.Event{hostapi.EventBegin, hostapi.EventEpilogue, hostapi.EventEnd} {
				c.handle(e, "1.more")
			}
			event = append(event, time.Since(start))
			kernel = append(kernel, c.timed(c.floor.Cycle, "1.floor"))
		}
		c.d.stop()
		ready = append(ready, c.restart())
		reading = append(reading, c.readAll(jobs))
	}
	cgrouptest.Row(b, "begin + epilogue + end beside 1,000 live jobs", event, kernel, "–")
	cgrouptest.Row(b, "start of the daemon with 1,000 jobs, to the answer of an event", ready, reading, "–")
	each(jobs, 2, func(id string) { c.handle(hostapi.EventEpilogue, id); c.handle(hostapi.EventEnd, id) })
}

// restart starts the daemon, and returns how long after that an event was answered.
func (c *crowded) restart() time.Duration {
	answered := make(chan time.Duration, 1)
	c.d = c.serveBy(func(cmd *exec.Cmd) error {
		start := time.Now()
		err := cmd.Start()
		go func() {
			client, err := api.Dial(c.path("run/s"))
			for err != nil && time.Since(start) < time.Minute {
				time.Sleep(time.Millisecond)
				client, err = api.Dial(c.path("run/s"))
			}
			c.client = client
			c.handle(hostapi.EventAttach, "1.bench")
			answered <- time.Since(start)
		}()
		return err
	})
	took := <-answered
	c.b.Cleanup(func() { c.client.Close() })
	return took
}

// readAll reads the records of the jobs and the files of their cgroups.
func (c *crowded) readAll(jobs int) time.Duration {
	files, err := filepath.Glob(c.path("run/jobs/*/*.json"))
	must.NoError(c.b, err)
	if len(files) == 0 {
		files, err = filepath.Glob(c.path("run/jobs/*.json"))
		must.NoError(c.b, err)
	}
	if len(files) != jobs {
		c.b.Fatalf("%d records", len(files))
	}
	start := time.Now()
	for _, file := range files {
		_, err := os.ReadFile(file)
		must.NoError(c.b, err)
	}
	each(jobs, 1, func(id string) { c.noError(c.floor.Measure(id)) })
	return time.Since(start)
}
