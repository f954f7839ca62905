package host

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

func quiet(o *Options) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	o.Log = logrus.NewEntry(log)
}

// onCall is told when a hook has answered.
type onCall func(time.Time)

func (onCall) Levels() []logrus.Level { return []logrus.Level{logrus.DebugLevel} }

func (f onCall) Fire(e *logrus.Entry) error {
	if e.Message == "hook called" {
		f(time.Now())
	}
	return nil
}

// An event through the host and a hook that does nothing, the job's record included.
func BenchmarkAttach(b *testing.B) {
	n := newNode(b)
	n.options = quiet
	n.hook("h", "misbehave", "")
	h := n.open()
	must(b, h, hostapi.EventBegin, "1.srv")
	must(b, h, hostapi.EventAttach, "1.srv")
	for b.Loop() {
		must(b, h, hostapi.EventAttach, "1.srv")
	}
}

// The same with a hook that has set a variable at begin and is not called.
func BenchmarkAttachEnv(b *testing.B) {
	n := newNode(b)
	n.options = quiet
	n.hook("h", "misbehave", "mode = \"attach-env\"\nvalue = \"A\"", "event=execjob_begin")
	h := n.open()
	must(b, h, hostapi.EventBegin, "1.srv")
	must(b, h, hostapi.EventAttach, "1.srv")
	for b.Loop() {
		must(b, h, hostapi.EventAttach, "1.srv")
	}
}

// The same without a hook: what the host itself costs.
func BenchmarkAttachWithoutHook(b *testing.B) {
	n := newNode(b)
	n.options = quiet
	h := n.open()
	must(b, h, hostapi.EventBegin, "1.srv")
	must(b, h, hostapi.EventAttach, "1.srv")
	for b.Loop() {
		must(b, h, hostapi.EventAttach, "1.srv")
	}
}

// A job's whole life with one hook: begin, launch, epilogue, end.
func BenchmarkJob(b *testing.B) {
	n := newNode(b)
	n.options = quiet
	n.hook("h", "misbehave", "")
	h := n.open()
	for b.Loop() {
		for _, e := range []hostapi.Event{hostapi.EventBegin, hostapi.EventLaunch, hostapi.EventEpilogue,
			hostapi.EventEnd} {
			must(b, h, e, "1.srv")
		}
	}
}

// From nothing to the first event answered, and back to nothing.
func BenchmarkOpen(b *testing.B) {
	n := newNode(b)
	n.options = quiet
	n.hook("h", "misbehave", "")
	for b.Loop() {
		h := n.open()
		must(b, h, hostapi.EventPeriodic, "")
		if err := h.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// A thousand jobs whose timers are due at once: the hook's one call for all, and their records
// afterwards. called-ms is how long it took until the hook had answered.
func BenchmarkDue(b *testing.B) {
	n := newNode(b)
	var answered time.Time
	n.options = func(o *Options) {
		quiet(o)
		o.Log.Logger.SetLevel(logrus.DebugLevel)
		o.Log.Logger.AddHook(onCall(func(at time.Time) { answered = at }))
	}
	n.hook("a", "misbehave", "")
	h := n.open()
	ids := n.stored(1000, carried)
	again := jobstate.Timer{At: jobstate.Moment{Wall: time.Now()}}
	var called []time.Duration
	for b.Loop() {
		b.StopTimer()
		err := n.store.Change(ids, func(rec *jobstate.Record) { rec.Timers = map[string]jobstate.Timer{"a": again} })
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		began := time.Now()
		h.callDue("a", ids)
		called = append(called, answered.Sub(began))
	}
	slices.Sort(called)
	b.ReportMetric(float64(called[len(called)/2].Microseconds())/1000, "called-ms")
}
