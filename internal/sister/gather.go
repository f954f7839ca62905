package sister

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/usage"
)

// Bounds on the texts of a job's other hosts, of all of them together. Further texts are counted.
const (
	maxGathered = 256 // lines of each kind
	maxSilent   = 8   // hosts of which a note says that they did not answer
)

// gathered is what a job's other hosts made of an event.
type gathered struct {
	event   hostapi.Event
	replies []reply
	silent  []reply // of the hosts that did not answer, where the event goes on without
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

// send has hosts carry out an event of a run of the job.
func (s Spread) send(ctx context.Context, req *hostapi.Request, run string, hosts []string) *gathered {
	return &gathered{event: req.Event, replies: s.jobs.ask(ctx, req, run, hosts)}
}

// beside has hosts carry out one of the last events of a job while the caller goes on. The function
// that it returns waits for them. A host that does not answer ends its part by itself (Heads).
func (s Spread) beside(
	ctx context.Context, req *hostapi.Request, run string, hosts []string,
) (wait func() *gathered) {
	sent := toSisters(req, run) // the caller may change req
	return sync.OnceValue(spawn(func() *gathered {
		g := s.send(ctx, sent, run, hosts)
		g.silent = slices.DeleteFunc(g.refusals(), func(r reply) bool { return r.Err == nil })
		if len(g.silent) > 0 {
			entry := s.jobs.Log.WithField("job", sent.Job.ID)
			entry.Warnf("%s has not reached hosts of the job: %s", sent.Event, named(g.silent))
		}
		return g
	}))
}

// spawn runs f beside the caller and returns the function that waits for its result.
func spawn[T any](f func() T) (wait func() T) {
	done := make(chan T, 1)
	go func() { done <- f() }()
	return func() T { return <-done }
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

// settleWith completes the verdict of an event that ends the job. The others' rejections are joined
// to it, and what they used is added to what this host tells. Hosts that did not answer are no part
// of it.
func (g *gathered) settleWith(v *host.Verdict) {
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

// addTexts adds the texts of the other hosts to the verdict, each with its host's name. Lines that
// the job's record has from an earlier event are there already.
func (g *gathered) addTexts(v *host.Verdict) {
	for _, text := range g.lines() {
		if !slices.Contains(v.JobStderr, text) {
			v.JobStderr = append(v.JobStderr, text)
		}
	}
	v.Notes = append(v.Notes, g.notes()...)
}

// lines returns the other hosts' lines for the job's standard error.
func (g *gathered) lines() []string {
	return g.texts("lines for the job's standard error", func(o *hostapi.Outcome) []string { return o.JobStderr })
}

// notes returns the other hosts' notes, and one for each host that did not answer.
func (g *gathered) notes() []string {
	notes := g.texts("notes", func(o *hostapi.Outcome) []string { return o.Notes })
	for i, r := range g.silent {
		if i == maxSilent {
			notes = append(notes, fmt.Sprintf("further hosts that did not answer: %d", len(g.silent)-i))
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

// texts returns texts of the hosts that answered, each with its host's name; what names the texts.
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
		texts = append(texts, fmt.Sprintf("further %s of other hosts: %d", what, more))
	}
	return texts
}

// note puts into the record what the others told, and is idempotent.
func (g *gathered) note(rec *jobstate.Record) {
	if len(rec.Told) < 2*maxGathered {
		rec.AddLines(g.lines())
	}
	if len(rec.Notes) < 4*maxGathered {
		for _, text := range g.notes() {
			rec.AddNote(text)
		}
	}
	for _, r := range g.replies {
		if r.Err != nil {
			continue
		}
		if u := r.Outcome.Usage; u != nil {
			put(&rec.Hosts, r.host, usage.Fold(rec.Hosts[r.host], u))
			if measured(u) {
				delete(rec.Missing, r.host)
			}
		}
		if diag := plain(r.Outcome.Diag); diag != "" && !strings.Contains(rec.Diag[r.host], diag) {
			put(&rec.Diag, r.host, strings.TrimPrefix(rec.Diag[r.host]+"; "+diag, "; "))
		}
	}
	if g.event == hostapi.EventEpilogue {
		g.missing(rec)
	}
}

// missing notes the hosts of which the last word on the job's usage did not come. A host without a
// usage, if others are measured, has lost the job or could not measure it.
func (g *gathered) missing(rec *jobstate.Record) {
	for _, r := range g.replies {
		switch {
		case r.Err != nil:
			put(&rec.Missing, r.host, r.cause())
		case len(rec.Hosts) > 0 && !measured(r.Outcome.Usage):
			put(&rec.Missing, r.host, "it told none at the end")
		}
	}
}

// measured is false for a host on which nothing is measured, or which has lost its part of the job.
func measured(u *hostapi.HostUsage) bool {
	return u != nil && (u.CPUTSeconds != nil || u.MemBytes != nil)
}

// refuse makes the verdict a reject for hosts that did not accept; the first has the say. The
// verdict stays as it is if there are no refusals.
func (g *gathered) refuse(v *host.Verdict, refusals []reply) {
	if len(refusals) == 0 {
		return
	}
	if first := refusals[0]; !v.Reject {
		v.Reject = true
		if first.Err == nil {
			v.OnReject, v.Kind = first.Outcome.OnReject, ""
		} else {
			v.Kind = kindOf(first.Err)
			v.OnReject = host.ActionOn(g.event, v.Kind)
		}
	}
	v.Add(named(refusals))
}

// kindOf is hostapi.KindOf but for an error without a kind: the host could not be reached, or does
// not want this one.
func kindOf(err error) hostapi.Kind {
	if _, ok := errors.AsType[*hostapi.Error](err); !ok {
		return hostapi.KindNode
	}
	return hostapi.KindOf(err)
}

// named says what the first few hosts said, and how many more there are.
func named(replies []reply) string {
	var says []string
	for i, r := range replies {
		if i == maxNamed {
			says = append(says, fmt.Sprintf("and %d more", len(replies)-i))
			break
		}
		says = append(says, r.says())
	}
	return strings.Join(says, "; ")
}

// firstOf joins the first few errors, and says how many more there are.
func firstOf(errs []error) error {
	if len(errs) > maxNamed {
		errs = append(errs[:maxNamed:maxNamed], fmt.Errorf("and %d more", len(errs)-maxNamed))
	}
	return errors.Join(errs...)
}
