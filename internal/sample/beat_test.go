package sample

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// job is a sampler that counts.
type job struct {
	next  Next
	count atomic.Int64
	at    atomic.Int64 // of the last sample, in nanoseconds since the test began
	start time.Time
}

func newJob(next Next) *job { return &job{next: next, start: time.Now()} }

func (j *job) Sample() Next {
	j.count.Add(1)
	j.at.Store(int64(time.Since(j.start)))
	return j.next
}

func (j *job) want(t *testing.T, what string, count int64) {
	t.Helper()
	if n := j.count.Load(); n != count {
		t.Errorf("%s: %d samples, want %d", what, n, count)
	}
}

func TestEachJobIsSampledAtItsOwnPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Beat
		fast, slow := newJob(Next{After: 10 * time.Millisecond}), newJob(Next{After: time.Second})
		f, s := b.Add(fast), b.Add(slow)
		time.Sleep(2*time.Second + time.Millisecond)
		fast.want(t, "fast", 201)
		slow.want(t, "slow", 3)
		f.Remove()
		s.Remove()
		time.Sleep(time.Minute)
		fast.want(t, "removed", 201)
	})
}

func TestJobsWithSlackShareAWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Beat
		jobs := []*job{}
		for range 5 {
			j := newJob(Next{After: 15 * time.Second, Slack: 15 * time.Second})
			jobs = append(jobs, j)
			t.Cleanup(b.Add(j).Remove)
			time.Sleep(2 * time.Second)
		}
		time.Sleep(10 * time.Minute)
		for _, j := range jobs {
			at := time.Duration(jobs[0].at.Load()) + jobs[0].start.Sub(j.start)
			if got := time.Duration(j.at.Load()); got != at {
				t.Errorf("sampled at %v, the first job at %v", got, at)
			}
		}
	})
}

func TestSleepingJobIsSampledWhenItIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Beat
		j := newJob(Asleep)
		e := b.Add(j)
		time.Sleep(time.Hour)
		j.want(t, "asleep", 1)
		e.Wake()
		synctest.Wait()
		j.want(t, "woken", 2)
		e.Remove()
		e.Remove()
		e.Wake()
		time.Sleep(time.Hour)
		j.want(t, "removed", 2)
	})
}

// blocked is a sampler that waits in its sample.
type blocked struct{ inside, release chan struct{} }

func (b *blocked) Sample() Next {
	b.inside <- struct{}{}
	<-b.release
	return Next{}
}

func TestRemoveWaitsForTheSample(t *testing.T) {
	var b Beat
	s := &blocked{make(chan struct{}), make(chan struct{})}
	e := b.Add(s)
	<-s.inside
	removed := make(chan struct{})
	go func() { e.Remove(); close(removed) }()
	select {
	case <-removed:
		t.Error("removed during a sample")
	case <-time.After(20 * time.Millisecond):
	}
	close(s.release)
	<-removed
}

func TestSamplingMakesNoGarbage(t *testing.T) {
	var b Beat
	j := newJob(Asleep)
	e := b.Add(j)
	defer e.Remove()
	// The first round warms up.
	allocs := testing.AllocsPerRun(100, func() {
		n := j.count.Load()
		for e.Wake(); j.count.Load() == n; time.Sleep(10 * time.Microsecond) {
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations for each sample", allocs)
	}
}
