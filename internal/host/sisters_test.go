package host

import (
	"context"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// The jobs whose other hosts have to be asked are called for once these have answered, and each
// once.
func TestAskedJobsAreCalledLater(t *testing.T) {
	n := newNode(t)
	asked, answer := make(chan string, 10), make(chan struct{})
	n.options = func(o *Options) {
		o.Sisters = func(Inside) Sisters {
			return measures(func(id string) {
				asked <- id
				<-answer
			})
		}
	}
	h := n.open()
	calls := make(chan string, 10)
	h.batches.call = func(hook string, jobs []string) { calls <- hook + " " + strings.Join(jobs, ",") }
	job := event(hostapi.EventBegin, "1.srv").Job
	job.ExecVnode = "(n1:ncpus=1)+(n2:ncpus=1)"
	rec := &jobstate.Record{Job: job, Host: self, Run: thisRun, Phase: jobstate.PhaseRunning}
	if err := n.store.Update("1.srv",
		func(*jobstate.Record) (*jobstate.Record, error) { return rec, nil }); err != nil {
		t.Fatal(err)
	}
	now := h.clock.Now()
	h.timers.replace("1.srv", map[string]alarm{"a": {at: h.clock.Time(now), ask: true}})
	if id := <-asked; id != "1.srv" {
		t.Errorf("asked about %s", id)
	}
	h.timerDue("1.srv", "a", true) // while it is being asked about
	h.timers.replace("2.srv", map[string]alarm{"a": {at: h.clock.Time(now)}})
	if got := <-calls; got != "a 2.srv" {
		t.Errorf("called for %q, want the job that asks nobody", got)
	}
	close(answer)
	if got := <-calls; got != "a 1.srv" {
		t.Errorf("called for %q", got)
	}
	if len(asked) > 0 || len(calls) > 0 {
		t.Errorf("%d more questions and %d more calls", len(asked), len(calls))
	}
}

// measures is Sisters that are only asked what jobs use.
type measures func(id string)

func (measures) Around(next Handler) Handler            { return next }
func (measures) Signal(_ context.Context, id, _ string) { panic(id) }
func (f measures) Measure(_ context.Context, id string) { f(id) }
