package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

// life is a job with its host, in a bubble of synctest. The host's clock of the job stops while the
// job is suspended. The host calls when it was asked to, and keeps the state as JSON. Each event is
// recorded with the time of day.
type life struct {
	p         *policy
	kept      json.RawMessage
	began     time.Time
	suspended time.Duration
	stopped   time.Time // when it was suspended
	down      bool      // the host is not running
	up        time.Time // when the host was started
	grace     time.Duration
	alive     int
	dies      deed // the action that ends its processes
	dumps     time.Time
	happened  []string
}

// newState returns the state of a job that begins.
func (p *policy) newState(job *hostapi.Job, mom *hostapi.ProcessID, cpus int) (*state, error) {
	s := stateFor(&hostapi.Request{MoM: mom})
	_, err := s.follow(p, job, cpus)
	return s, err
}

func newLife(p *policy, r hostapi.Resources, grace time.Duration) *life {
	l := &life{p: p, began: time.Now(), up: time.Now().Add(-time.Hour), grace: grace, alive: 1, dies: terminate}
	s, err := p.newState(&hostapi.Job{ResourceList: r}, &hostapi.ProcessID{PID: 1}, 2)
	if err != nil {
		panic(err)
	}
	l.kept = s.encode()
	return l
}

func (l *life) elapsed() time.Duration {
	now := time.Now()
	if !l.stopped.IsZero() {
		now = l.stopped
	}
	return now.Sub(l.began) - l.suspended
}

func (l *life) log(format string, args ...any) {
	l.happened = append(l.happened,
		fmt.Sprintf("%v ", time.Since(l.began).Round(10*time.Millisecond))+fmt.Sprintf(format, args...))
}

// run simulates the host for so long.
func (l *life) run(d time.Duration) {
	for end := time.Now().Add(d); ; {
		s, err := decodeState(l.kept)
		if err != nil {
			panic(err)
		}
		wait := time.Until(end)
		if s.Next > 0 && !l.down && l.stopped.IsZero() {
			wait = min(wait, max(s.Next-l.elapsed(), 0))
		}
		time.Sleep(wait)
		if !time.Now().Before(end) {
			return
		}
		l.call()
	}
}

// call sends a Partial periodic.
func (l *life) call() {
	s, err := decodeState(l.kept)
	if err != nil {
		panic(err)
	}
	f := facts{Elapsed: l.elapsed(), Grace: l.grace, Alive: l.alive, Suspended: !l.stopped.IsZero(),
		Up: time.Since(l.up)}
	if time.Now().Before(l.dumps) && l.alive > 0 {
		f.Dumping = 1
	}
	var o orders
	s.progress, o = l.p.step(s.Limits, s.progress, f)
	for _, w := range o.Signals {
		l.log("%s", config.SignalName(w.Signal))
	}
	switch o.Do {
	case terminate:
		l.log("SIGTERM")
	case killOthers:
		l.log("SIGKILL to others")
	case kill:
		l.log("SIGKILL")
	}
	if o.Do != nothing && o.Do >= l.dies && o.Do != killOthers {
		l.alive = 0
	}
	if o.GiveUp {
		l.log("unkillable")
	}
	for _, text := range append(o.Lines, o.Notes...) {
		l.log("%s", text)
	}
	l.kept = s.encode()
}

func (l *life) suspend() { l.stopped = time.Now() }
func (l *life) resume() {
	l.suspended += time.Since(l.stopped)
	l.stopped = time.Time{}
}

func TestJobIsWarnedTerminatedAndKilledInTime(t *testing.T) {
	three := hostapi.Resources{"walltime": "3", "walltime_signal": "USR1@2"}
	const s = time.Second
	warned := []string{"1s SIGUSR1", "1s =>> PBS: walltime: 00:00:02 left of 00:00:03"}
	ended := func(at string) []string {
		return []string{at + " SIGTERM", at + " =>> PBS: job killed: walltime 3 exceeded limit 3",
			at + " ended by hookhost: walltime 3 exceeded limit 3: SIGTERM"}
	}
	killed := func(at string) []string {
		return []string{at + " SIGKILL",
			at + " ended by hookhost: walltime 3 exceeded limit 3: SIGKILL after a grace of 2s"}
	}
	for _, tt := range []struct {
		name string
		play func(l *life)
		want [][]string
	}{
		{"obeys", func(l *life) { l.run(time.Hour) }, [][]string{warned, ended("3s")}},
		{"ignores SIGTERM", func(l *life) { l.dies = kill; l.run(time.Hour) },
			[][]string{warned, ended("3s"), killed("5s")}},
		{"is suspended for 5 s", func(l *life) {
			l.run(2 * s)
			l.suspend()
			l.run(5 * s)
			l.resume()
			l.run(time.Hour)
		}, [][]string{warned, ended("8s")}},
		{"is suspended in its grace, and asked about", func(l *life) {
			l.dies = kill
			l.run(4 * s)
			l.suspend()
			l.run(100 * s)
			l.call()
			l.resume()
			l.run(time.Hour)
		}, [][]string{warned, ended("3s"), killed("1m45s")}},
		{"a suspension that ends where the walltime does", func(l *life) {
			l.run(3*s - 1)
			l.suspend()
			l.run(s)
			l.resume()
			l.run(time.Hour)
		}, [][]string{warned, ended("4s")}},
		{"asked about all the time", func(l *life) {
			l.dies = kill
			for range 100 {
				l.call()
				l.run(s / 10)
			}
		}, [][]string{warned, ended("3s"), killed("5s")}},
		{"the host is away from 2 s to 5 s", func(l *life) {
			l.run(2 * s)
			l.down = true
			l.run(3 * s)
			l.down, l.up = false, time.Now()
			l.run(time.Hour)
		}, [][]string{warned, {"5s SIGTERM", "5s =>> PBS: job killed: walltime 5 exceeded limit 3",
			"5s ended by hookhost: walltime 5 exceeded limit 3: SIGTERM",
			"5s was ended 2.0 seconds later than was due, because hookhost did not run then, or did not look at " +
				"walltime"}}},
		{"the host dies when it has acted, and knows nothing of it", func(l *life) {
			l.run(2 * s)
			before := l.kept
			l.run(s + 1)
			l.kept, l.alive = before, 1
			l.run(time.Hour)
		}, [][]string{warned, ended("3s"), ended("3s")}},
		{"dumps core for 4 s", func(l *life) {
			l.dies, l.dumps = kill, time.Now().Add(9*s)
			l.run(time.Hour)
		}, [][]string{warned, ended("3s"),
			{"5s SIGKILL to others", "5s SIGKILL waits 30s at most for 1 of its processes to write a core dump",
				"6s SIGKILL to others", "7s SIGKILL to others", "8s SIGKILL to others"}, killed("9s")}},
		{"cannot be killed for two minutes", func(l *life) {
			l.dies = kill + 1
			l.run(130 * s)
			l.dies = kill
			l.run(time.Hour)
		}, [][]string{warned, ended("3s"), killed("5s"),
			{"6s SIGKILL", "8s SIGKILL", "12s SIGKILL", "20s SIGKILL", "36s SIGKILL", "1m5s SIGKILL", "1m5s unkillable",
				"2m5s SIGKILL", "3m5s SIGKILL"}}},
		{"a process comes when all were gone", func(l *life) {
			l.run(100 * s)
			l.alive = 1
			l.run(time.Hour)
		}, [][]string{warned, ended("3s"), killed("2m5s")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLife(testPolicy(nil), three, 2*s)
				tt.play(l)
				var want []string
				for _, part := range tt.want {
					want = append(want, part...)
				}
				must.Equal(t, "", want, l.happened)
			})
		})
	}
}

// A job that changes how much cpu time it uses is never ended early. It does not exceed its limit
// by more than the tolerance, and is rarely checked.
func TestCPUTEndsAJobWithinTheTolerance(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, tt := range []struct {
		limit time.Duration
		cpus  int
	}{{time.Second, 1}, {10 * time.Second, 2}, {100 * time.Second, 8}, {time.Hour, 64}, {100 * time.Hour, 16},
		{1000 * time.Hour, 256}} {
		p := testPolicy(nil)
		limit := fmt.Sprint(int(tt.limit.Seconds()))
		for range 100 {
			s, err := p.newState(&hostapi.Job{ResourceList: hostapi.Resources{"cput": limit}},
				&hostapi.ProcessID{PID: 1}, tt.cpus)
			must.NoError(t, err)
			var elapsed, used time.Duration
			looks := 0
			for s.Stage == running {
				if s.Next <= elapsed {
					t.Fatalf("%+v: at %v the next look is at %v", tt, elapsed, s.Next)
				}
				for range 4 { // its use goes up and down
					step := (s.Next - elapsed) / 4
					used += time.Duration(float64(step) * float64(tt.cpus) * []float64{0, random.Float64(), 1,
						1}[random.IntN(4)])
				}
				elapsed = s.Next
				now := used
				s.progress, _ = p.step(s.Limits, s.progress,
					facts{Elapsed: elapsed, CPU: &now, CPUs: tt.cpus, Alive: 1, Up: time.Hour})
				looks++
			}
			if used < tt.limit || used > tt.limit+tolerance(tt.limit) {
				t.Errorf("%+v: ended at %v", tt, used)
			}
			if looks > 300 {
				t.Errorf("%+v: %d looks", tt, looks)
			}
			if want := "cput "; !strings.HasPrefix(s.Reason, want) {
				t.Errorf("reason %q", s.Reason)
			}
		}
	}
}

// A job's walltime can change while it runs.
func TestChangedWalltimeIsFollowed(t *testing.T) {
	p := testPolicy(func(w *config.Walltime) { w.Signals = []string{"@300"} })
	job := func(walltime string, elapsed time.Duration) *hostapi.Job {
		return &hostapi.Job{ID: "1.srv", ResourceList: hostapi.Resources{"walltime": walltime}, Elapsed: elapsed}
	}
	const s = time.Second
	mom := &hostapi.ProcessID{PID: 1}
	st, err := p.newState(job("3600", 0), mom, 2)
	must.NoError(t, err)
	st.progress, _ = p.step(st.Limits, st.progress, facts{Elapsed: 3300 * s, Alive: 1})
	for _, tt := range []struct {
		walltime string
		elapsed  time.Duration
		next     time.Duration
		warned   int
	}{
		{"3600", 3310 * s, 3600 * s, 1}, // another resource was resized
		{"7200", 3320 * s, 6900 * s, 0},
		{"3700", 3500 * s, 3500 * s, 0}, // the warning is due at once
		{"1000", 3510 * s, 3510 * s, 0}, // the time has already run out
	} {
		if _, err := st.follow(p, job(tt.walltime, tt.elapsed), 2); err != nil {
			t.Fatal(err)
		}
		if st.Next != tt.next || st.Warned != tt.warned {
			t.Errorf("walltime %s at %v: next %v, %d warned, want %v, %d", tt.walltime, tt.elapsed, st.Next, st.Warned,
				tt.next, tt.warned)
		}
	}
	var o orders
	st.progress, o = p.step(st.Limits, st.progress, facts{Elapsed: 3510 * s, Alive: 1, Grace: 5 * s, Up: time.Hour})
	must.Equal(t, "notes", []string{"ended by hookhost: walltime 3510 exceeded limit 1000: SIGTERM"}, o.Notes)
	// Once an end has begun, it is completed.
	if _, err := st.follow(p, job("7200", 3511*s), 2); err != nil || st.Stage != terminated ||
		st.Next != 3515*s {
		t.Errorf("a longer walltime after SIGTERM: %+v, %v", st.progress, err)
	}
	// and the job is not told about more time
	if _, err := st.follow(p, job("soon", 3511*s), 2); err == nil || st.Limits.Walltime != 1000*s {
		t.Errorf("walltime soon: %v, %+v", err, st.Limits)
	}
}

func TestDecodeState(t *testing.T) {
	for text, want := range map[string]bool{"": false, "null": false, `{"limits":{}}`: true, `[]`: false,
		`{"limits":{"end":"x"}}`: false} {
		if s, _ := decodeState(json.RawMessage(text)); (s != nil) != want {
			t.Errorf("%q: %+v", text, s)
		}
	}
}
