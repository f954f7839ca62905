package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// maxComm bounds a process's name in a note, in bytes.
const maxComm = 64

// adopt attaches the processes that hooks have found outside of their jobs, after the event. Each
// gets an execjob_attach, in its job's turn. A job for which this is already under way is left to
// the next scan.
func (h *Host) adopt(ctx context.Context, c *chain) {
	strays := map[string][]hostapi.Stray{}
	for _, answer := range c.answers {
		for id, u := range answer.out.Jobs {
			if u != nil && len(u.Strays) > 0 {
				strays[id] = append(strays[id], u.Strays...)
			}
		}
	}
	for id, list := range strays {
		if !h.adopting.begin(id) {
			continue
		}
		list = list[:min(len(list), hostapi.MaxStrays)]
		h.goBackground(func() {
			defer h.adopting.end(id)
			h.adoptAll(ctx, id, list)
		})
	}
}

func (h *Host) adoptAll(ctx context.Context, id string, strays []hostapi.Stray) {
	for _, s := range strays {
		rec := h.opt.Store.Get(id)
		if ctx.Err() != nil {
			return
		}
		if rec == nil || rec.Phase != hostapi.PhasePrerun && rec.Phase != hostapi.PhaseRunning {
			return // an attach would be refused as well; there is a next scan
		}
		h.adoptOne(ctx, rec, s)
	}
}

// adoptOne attaches one process and leaves a note.
func (h *Host) adoptOne(ctx context.Context, rec *jobstate.Record, s hostapi.Stray) {
	id := rec.Job.ID
	name := fmt.Sprintf("pid %d (%s)", s.Process.PID, hostapi.Printable(s.Comm[:min(len(s.Comm), maxComm)]))
	if !h.opt.Processes.Alive(s.Process) {
		return
	}
	err := h.attachStray(ctx, rec.Job, s)
	note := fmt.Sprintf("adopted %s: %s", name, s.Match)
	switch {
	case errors.Is(err, ErrClosed), ctx.Err() != nil:
		return
	case err != nil:
		note = fmt.Sprintf("did not adopt %s: %s", name, hostapi.OneLine(err.Error()))
	default:
		h.counters.adopted.Add(1)
	}
	if entry, say := h.attaches.next(h.log.WithField("job", id)); say {
		entry.Info(note)
	}
	h.change(func(rec *jobstate.Record) { rec.AddStray(note) }, id)
}

// attachStray does the same as an attach from outside. The hooks get a pid. It was right if the
// process still has that pid afterwards.
func (h *Host) attachStray(ctx context.Context, job *hostapi.Job, s hostapi.Stray) error {
	out, err := h.Handle(ctx, &hostapi.Request{Event: hostapi.EventAttach, Job: job, PID: s.Process.PID})
	switch {
	case err != nil:
		return err
	case out.Reject:
		return errors.New(out.Message)
	case !h.opt.Processes.Alive(s.Process):
		return errors.New("it has ended meanwhile")
	}
	return nil
}
