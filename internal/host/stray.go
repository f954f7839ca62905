package host

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// maxComm bounds a process's name in a note, in bytes.
const maxComm = 64

// adopter attaches processes that hooks have found outside of their jobs.
type adopter struct {
	opt   *Options
	host  adopting
	lines *attachLog
	jobs  busy[string]
	taken *atomic.Int64 // counts attached processes
}

// adopting is the part of Host that an adopter needs.
type adopting interface {
	Judge(ctx context.Context, req *hostapi.Request) (*Verdict, error)
	change(fn func(*jobstate.Record), ids ...string)
	goBackground(f func())
}

// adopt attaches the processes that the answers name, after the event. Each gets an execjob_attach,
// in its job's turn. A job for which this is already under way is left to the next scan.
func (a *adopter) adopt(ctx context.Context, c *chain) {
	strays := map[string][]hostapi.Stray{}
	for _, answer := range c.answers {
		for id, u := range answer.out.Jobs {
			if u != nil && len(u.Strays) > 0 {
				strays[id] = append(strays[id], u.Strays...)
			}
		}
	}
	for id, list := range strays {
		if !a.jobs.begin(id) {
			continue
		}
		list = list[:min(len(list), hostapi.MaxStrays)]
		a.host.goBackground(func() {
			defer a.jobs.end(id)
			a.adoptAll(ctx, id, list)
		})
	}
}

func (a *adopter) adoptAll(ctx context.Context, id string, strays []hostapi.Stray) {
	for _, s := range strays {
		rec := a.opt.Store.Get(id)
		if ctx.Err() != nil {
			return
		}
		if rec == nil || rec.Phase != jobstate.PhasePrerun && rec.Phase != jobstate.PhaseRunning {
			return // an attach would be refused as well; there is a next scan
		}
		a.adoptOne(ctx, rec, s)
	}
}

// adoptOne attaches one process and leaves a note.
func (a *adopter) adoptOne(ctx context.Context, rec *jobstate.Record, s hostapi.Stray) {
	id := rec.Job.ID
	name := fmt.Sprintf("pid %d (%s)", s.Process.PID, hostapi.Printable(s.Comm[:min(len(s.Comm), maxComm)]))
	if !a.opt.Processes.Alive(s.Process) {
		return
	}
	err := a.attach(ctx, rec.Job, s)
	note := fmt.Sprintf("adopted %s: %s", name, s.Match)
	switch {
	case errors.Is(err, ErrClosed), ctx.Err() != nil:
		return
	case err != nil:
		note = fmt.Sprintf("did not adopt %s: %s", name, hostapi.OneLine(err.Error()))
	default:
		a.taken.Add(1)
	}
	if entry, say := a.lines.next(a.opt.Log.WithField("job", id)); say {
		entry.Info(note)
	}
	a.host.change(func(rec *jobstate.Record) { rec.AddNotes([]string{note}) }, id)
}

// attach does the same as an attach from outside. The hooks get a pid, which was right if the
// process still has it afterwards.
func (a *adopter) attach(ctx context.Context, job *hostapi.Job, s hostapi.Stray) error {
	v, err := a.host.Judge(ctx, &hostapi.Request{Event: hostapi.EventAttach, Job: job, PID: s.Process.PID})
	switch {
	case err != nil:
		return err
	case v.Reject:
		return errors.New(v.Message)
	case !a.opt.Processes.Alive(s.Process):
		return errors.New("it has ended meanwhile")
	}
	return nil
}
