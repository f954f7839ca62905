package host

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// tally counts what an Observer is told.
type tally struct {
	mu    sync.Mutex
	seen  map[string]int
	short bool // something took no time
}

func (o *tally) add(what string, result Result, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	put(&o.seen, what+" "+string(result), o.seen[what+" "+string(result)]+1)
	o.short = o.short || took <= 0
}

func (o *tally) Event(e hostapi.Event, result Result, took time.Duration) {
	o.add(string(e), result, took)
}

func (o *tally) Call(hook string, result Result, took time.Duration) { o.add(hook, result, took) }

func TestObserverIsToldOfEachEventAndCall(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "")
	n.hook("b", "misbehave", "mode = \"reject\"\nevent = \"execjob_prologue\"")
	n.hook("c", "misbehave", "mode = \"exit\"\nevent = \"execjob_launch\"")
	o := &tally{}
	n.options = func(options *Options) { options.Observer = o }
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	judge(t, h, hostapi.EventPrologue, "1.srv")
	judge(t, h, hostapi.EventLaunch, "1.srv")
	if v, err := h.Handle(t.Context(), requestOf(hostapi.EventLaunch, "2.srv")); err == nil && !v.Reject {
		t.Errorf("launch of a job that is not here: %+v", v)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, hook := range []string{"a", "b", "c"} { // programs start beside the events
		delete(o.seen, hook+" "+string(Accepted))
	}
	want := map[string]int{
		"execjob_begin accept": 1, "execjob_prologue reject": 1, "b reject": 1,
		"execjob_launch error": 2, "c error": 1,
	}
	if !maps.Equal(o.seen, want) || o.short {
		t.Errorf("%v\nwant %v", o.seen, want)
	}
	crashes := map[string]int{}
	for _, p := range h.Programs() {
		crashes[p.Name] = p.Crashes
	}
	if !maps.Equal(crashes, map[string]int{"a": 0, "b": 0, "c": 2}) {
		t.Errorf("crashes: %v, want two of c: the event and its replay", crashes)
	}
}

// A kill is counted when the host hears of it, and once, however often it is told.
func TestOOMKillIsCountedOnce(t *testing.T) {
	n := newNode(t)
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	told := func(kills int64) {
		t.Helper()
		h.change(func(rec *jobstate.Record) {
			fold(rec, h.opt.Node, &hostapi.JobUpdate{Usage: &hostapi.HostUsage{OOMKills: &kills}})
		}, "1.srv")
	}
	for i, step := range []struct{ kills, want int64 }{{0, 0}, {1, 1}, {1, 1}, {3, 3}, {2, 3}} {
		told(step.kills)
		if got := h.Counts().OOMKills; got != step.want {
			t.Errorf("after report %d: %d are counted, want %d", i+1, got, step.want)
		}
	}
	must(t, h, hostapi.EventEpilogue, "1.srv")
	must(t, h, hostapi.EventEnd, "1.srv")
	if got := fmt.Sprint(h.Counts().OOMKills); got != "3" {
		t.Errorf("after the job's end: %s, want 3", got)
	}
}
