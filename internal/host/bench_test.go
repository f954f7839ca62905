package host

import (
	"io"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
)

func quiet(o *Options) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	o.Log = logrus.NewEntry(log)
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
		for _, e := range []hostapi.Event{hostapi.EventBegin, hostapi.EventLaunch, hostapi.EventEpilogue, hostapi.EventEnd} {
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
