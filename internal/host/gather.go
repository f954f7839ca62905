package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/usage"
)

// Bounds on what is kept of the texts of a job's other hosts, of all of them together; beyond that they are counted.
const (
	maxGathered = 256 // lines of each kind
	maxSilent   = 8   // hosts of which a note says that they did not answer
)

// gathered is what a job's other hosts made of an event. The zero value is that there are none.
type gathered struct {
	event   hostapi.Event
	replies []reply
	silent  []reply // those of them that did not answer, where the event goes on without
}

// refusals returns the replies that are no acceptance.
func (g *gathered) refusals() []reply {
	var list []reply
	for _, r := range g.replies {
		if !r.accepted() {
			list = append(list, r)
		}
	}
	return list
}

// mayHold returns the hosts on which something of the event may be left.
func (g *gathered) mayHold() []string {
	var hosts []string
	for _, r := range g.replies {
		if r.mayHold() {
			hosts = append(hosts, r.host)
		}
	}
	return hosts
}

// beside has hosts carry out one of the last events of a job while the caller goes on, and returns
// the function that waits for them. A host that does not answer ends its part by itself: it asks
// this one about the job (Abandon).
func (h *Host) beside(ctx context.Context, req *hostapi.Request, rec *jobstate.Record, hosts []string) (wait func() *gathered) {
	if len(hosts) == 0 {
		return func() *gathered { return &gathered{} }
	}
	sent := *req // the caller's changes
	done := make(chan *gathered, 1)
	go func() {
		g := &gathered{event: sent.Event, replies: h.send(ctx, &sent, rec, hosts)}
		g.silent = slices.DeleteFunc(g.refusals(), func(r reply) bool { return r.Err == nil })
		if len(g.silent) > 0 {
			h.log.WithField("job", rec.Job.ID).Warnf("%s has not reached hosts of the job: %s", sent.Event, named(g.silent))
		}
		done <- g
	}()
	return func() *gathered { return <-done }
}

// rejected returns what hosts had against the event, nil when that is nothing. A host that did not
// answer has nothing against it.
func (g *gathered) rejected() error {
	var errs []error
	for _, r := range g.refusals() {
		if r.Err == nil {
			errs = append(errs, fmt.Errorf("%s of %s", g.event, r.says()))
		}
	}
	return firstOf(errs)
}

// settleWith completes the verdict of an event that ends the job: what the others rejected is joined to it, and what they used is added
// to what this host tells. Who did not answer is not part of it.
func (g *gathered) settleWith(v *Verdict) {
	g.refuse(v, slices.DeleteFunc(g.refusals(), func(r reply) bool { return r.Err != nil }))
	if g.event != hostapi.EventEpilogue {
		return
	}
	perHost := map[string]hostapi.Resources{"": v.ResourcesUsed} // no host has this name
	for _, r := range g.replies {
		if r.Err == nil {
			perHost[r.host] = r.Outcome.ResourcesUsed
		}
	}
	walltime, told := v.ResourcesUsed["walltime"]
	sum := usage.Sum(perHost)
	if delete(sum, "walltime"); told {
		sum["walltime"] = walltime
	}
	v.ResourcesUsed = sum
}

// tell adds the texts of the other hosts to the verdict, each with its host's name.
func (g *gathered) tell(v *Verdict) {
	v.JobStderr = append(v.JobStderr, g.lines()...)
	v.Notes = append(v.Notes, g.notes()...)
}

// lines returns the other hosts' lines for the job's standard error.
func (g *gathered) lines() []string {
	return g.texts("lines for the job's standard error", func(o *hostapi.Outcome) []string { return o.JobStderr })
}

// notes returns the other hosts' notes, and who did not answer.
func (g *gathered) notes() []string {
	notes := g.texts("notes", func(o *hostapi.Outcome) []string { return o.Notes })
	for i, r := range g.silent {
		if i == maxSilent {
			notes = append(notes, fmt.Sprintf("%d more hosts did not answer", len(g.silent)-i))
			break
		}
		notes = append(notes, g.silence(r))
	}
	return notes
}

// silence is the note about a host that did not answer.
func (g *gathered) silence(r reply) string {
	if g.event == hostapi.EventPreterm {
		return r.host + " did not answer to " + string(g.event) + ": " + r.cause()
	}
	return r.host + " has not told what was used there: " + r.cause()
}

func (g *gathered) texts(what string, of func(*hostapi.Outcome) []string) []string {
	var texts []string
	more := 0
	for _, r := range g.replies {
		if r.Err != nil {
			continue
		}
		for _, text := range of(r.Outcome) {
			if len(texts) == maxGathered {
				more++
				continue
			}
			texts = append(texts, r.host+": "+plain(text))
		}
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("%d more %s of other hosts", more, what))
	}
	return texts
}

// note puts into the record what the others told. It may be repeated.
func (g *gathered) note(rec *jobstate.Record) {
	if len(rec.Told) < 2*maxGathered {
		tellJob(rec, g.lines())
	}
	if len(rec.Notes) < 4*maxGathered {
		for _, text := range g.notes() {
			addNote(rec, text)
		}
	}
	for _, r := range g.replies {
		if r.Err != nil {
			continue
		}
		if u := r.Outcome.Usage; u != nil {
			put(&rec.Hosts, r.host, usage.Fold(rec.Hosts[r.host], u))
			if tells(u) {
				delete(rec.Missing, r.host)
			}
		}
		if diag := plain(r.Outcome.Diag); diag != "" && !strings.Contains(rec.Diag[r.host], diag) {
			put(&rec.Diag, r.host, joinLines(rec.Diag[r.host], diag))
		}
	}
	if g.event == hostapi.EventEpilogue {
		g.missing(rec)
	}
}

// missing notes whose last word on the job's usage did not come.
func (g *gathered) missing(rec *jobstate.Record) {
	for _, r := range g.replies {
		switch {
		case r.Err != nil:
			put(&rec.Missing, r.host, r.cause())
		case len(rec.Hosts) > 0 && !tells(r.Outcome.Usage): // others are measured, so this one has lost the job, or could not measure
			put(&rec.Missing, r.host, "it told none at the end")
		}
	}
}

// tells is false for a host on which nothing is measured, or which has lost its part of the job.
func tells(u *hostapi.HostUsage) bool { return u != nil && (u.CPUTSeconds != nil || u.MemBytes != nil) }
