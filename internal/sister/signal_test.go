package sister

import (
	"strings"
	"sync"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// Signals that a hook tells between events reach the job on every other host in their order, and
// nobody else. A host that is down keeps none of the others waiting.
func TestSignalsReachSisters(t *testing.T) {
	c := newCluster(t, 4, func(name string) string {
		if name == "n1" {
			return "signals = ['USR1', 'no signal', 'TERM', 'RTMIN+2', 'KILL']\n"
		}
		return "signals = ['HUP']\n" // has no effect: it is nobody's head
	}, nil)
	c.must(begin, launch)
	stuck := make(chan struct{})
	free := sync.OnceFunc(func() { close(stuck) })
	defer free()
	c.breaks(func(host string, e hostapi.Event) fault {
		if host == "n3" && e == preterm {
			<-stuck
			return hung
		}
		return none
	})
	c.must(prologue)
	signals := func(name string) string { // prologue comes before, between or behind them
		events := strings.TrimPrefix(c.events(name, "1.srv"), "begin ")
		return strings.Join(strings.Fields(strings.ReplaceAll(events, "prologue", "")), " ")
	}
	for _, name := range []string{"n2", "n4"} {
		plugintest.Eventually(t, "signals reach "+name, func() bool {
			return signals(name) == "preterm=USR1 preterm=TERM preterm=RTMIN+2 preterm=KILL"
		})
	}
	if log := c.members["n1"].log; log.Find("has not reached") != nil {
		t.Error("told of n3 before it has failed")
	}
	free()
	plugintest.Eventually(t, "the log says that n3 has not got it", func() bool {
		return c.members["n1"].log.Find("SIGKILL has not reached the job's processes: n3: no answer in time") != nil
	})
	if got := c.events("n1", "1.srv"); got != "begin prologue" {
		t.Errorf("n1 got %q", got)
	}
	c.must(epilogue, end)
}

// A signal waits for nobody's turn: here the job's is taken by an event that a host keeps waiting.
func TestSignalDuringEvent(t *testing.T) {
	c := newCluster(t, 2, func(string) string { return "signals = ['TERM']\n" }, nil)
	c.must(begin)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	c.breaks(func(_ string, e hostapi.Event) fault {
		if e == postsuspend {
			close(arrived)
			<-goOn
		}
		return none
	})
	var suspended sync.WaitGroup
	suspended.Go(func() { c.must(postsuspend) })
	<-arrived
	jobs := c.members["n1"].jobs
	jobs.Signal(t.Context(), "1.srv", "TERM")
	plugintest.Eventually(t, "the signal arrives", func() bool {
		return c.events("n2", "1.srv") == "begin preterm=TERM"
	})
	close(goOn)
	suspended.Wait()
	jobs.Signal(t.Context(), "9.srv", "TERM") // no such job
}

func TestSignalsInOrder(t *testing.T) {
	var mu sync.Mutex
	got := map[string][]string{}
	var running sync.WaitGroup
	q := &signals{
		slots: make(chan struct{}, 3),
		start: func(f func()) bool { running.Go(f); return true },
		send: func(s *signal, host string) reply {
			mu.Lock()
			defer mu.Unlock()
			got[host] = append(got[host], s.name)
			return reply{host, Answer{Outcome: &hostapi.Outcome{}}}
		},
		lost: func(*signal, []reply) { t.Error("nothing has failed") },
	}
	rec := &jobstate.Record{Job: &hostapi.Job{ID: "1.srv"}}
	hosts := strings.Split(strings.Repeat("h,", 19)+"h", ",")
	for i := range hosts {
		hosts[i] += string(rune('a' + i))
	}
	var want []string
	for i := range 50 {
		name := string(rune('A' + i))
		want = append(want, name)
		q.add(&signal{name: name, rec: rec}, hosts)
	}
	running.Wait()
	for _, host := range hosts {
		if strings.Join(got[host], "") != strings.Join(want, "") {
			t.Errorf("%s got %q", host, got[host])
		}
	}
	if len(q.lanes) != 0 {
		t.Errorf("%d lanes are left", len(q.lanes))
	}
}
