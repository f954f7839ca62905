package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// Origins knows where connections come from.
type Origins interface {
	// Origin returns the job of which a process holds the other end of the connection, and the host that says so: one of the hosts of
	// the job that is passed. Both are "" when none of them has the connection's address, or it is no job's there.
	Origin(ctx context.Context, from hostapi.Origin, job *hostapi.Job) (id, host string, err error)
}

// Bounds on what strays cost.
const (
	originLimit    = 3 * time.Second // to be told where one comes from
	maxStrayNotes  = 64
	maxComm        = 64 // bytes of a process's name in a note
	moreStrayNotes = "what became of more processes outside of the job is in the log"
)

// strayNotes are how the notes begin that adoption makes.
var strayNotes = []string{"adopted pid ", "did not adopt pid "}

// adopt takes in the processes that hooks have found outside of their jobs, behind the event: each by an execjob_attach, in its job's
// turn. A job of which others are being taken in is left to the next scan.
func (h *Host) adopt(c *chain) {
	strays := map[string][]hostapi.Stray{}
	for _, a := range c.answers {
		for id, u := range a.out.Jobs {
			if u != nil && len(u.Strays) > 0 {
				strays[id] = append(strays[id], u.Strays...)
			}
		}
	}
	for id, list := range strays {
		if !h.beginAdopting(id) {
			continue
		}
		list = list[:min(len(list), hostapi.MaxStrays)]
		h.behindIt(func() {
			defer h.endAdopting(id)
			h.adoptAll(id, list)
		})
	}
}

// beginAdopting is true for one caller at a time for each job, until Close.
func (h *Host) beginAdopting(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.adopting[id] {
		return false
	}
	put(&h.adopting, id, true)
	return true
}

func (h *Host) endAdopting(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.adopting, id)
}

func (h *Host) adoptAll(id string, strays []hostapi.Stray) {
	silent := map[string]bool{} // clients whose host has not answered: it is not waited for again
	for _, s := range strays {
		rec := h.opt.Store.Get(id)
		if h.ctx.Err() != nil {
			return
		}
		if rec == nil || rec.Phase != jobstate.PhasePrerun && rec.Phase != jobstate.PhaseRunning {
			return // an attach would be refused as well; there is a next scan
		}
		h.adoptOne(rec, s, silent)
	}
}

// adoptOne takes in one process, and leaves a note.
func (h *Host) adoptOne(rec *jobstate.Record, s hostapi.Stray, silent map[string]bool) {
	id := rec.Job.ID
	name := fmt.Sprintf("pid %d (%s)", s.Process.PID, hostapi.Printable(s.Comm[:min(len(s.Comm), maxComm)]))
	by, err := h.belongs(rec, s, silent)
	if err == nil && by == "" || !h.opt.Processes.Alive(s.Process) {
		return
	}
	if err == nil {
		err = h.attachStray(rec.Job, s)
	}
	note := fmt.Sprintf("adopted %s: %s", name, by)
	switch {
	case errors.Is(err, errEnding), h.ctx.Err() != nil:
		return
	case err != nil:
		note = fmt.Sprintf("did not adopt %s: %s", name, OneLine(err.Error()))
	}
	h.log.WithField("job", id).Info(note)
	h.change(func(rec *jobstate.Record) { noteStray(rec, note) }, id)
}

// belongs says by what a stray is the job's; "" where it is not.
func (h *Host) belongs(rec *jobstate.Record, s hostapi.Stray, silent map[string]bool) (by string, err error) {
	if s.From == nil {
		return s.Match, nil
	}
	if s.Age > h.clock.Now().Wall.Sub(rec.Begun) {
		return "", nil // SSH_CONNECTION tells of a connection that is long gone, and its port may be another's by now
	}
	job := rec.Job
	client, _, _ := cutLast(s.From.Local, ":")
	if h.opt.Origins == nil || silent[client] {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(h.ctx, originLimit)
	defer cancel()
	id, host, err := h.opt.Origins.Origin(ctx, *s.From, job)
	if err != nil {
		silent[client] = true
		return "", fmt.Errorf("it came by ssh from %s: %w", client, err)
	}
	if id != job.ID {
		return "", nil
	}
	return "ssh from " + host, nil
}

// attachStray is what an attach from outside is: the hooks are told a number, and it was the right one if the process has it still.
func (h *Host) attachStray(job *hostapi.Job, s hostapi.Stray) error {
	v, err := h.Judge(h.ctx, &hostapi.Request{Event: hostapi.EventAttach, Job: job, PID: s.Process.PID})
	switch {
	case errors.Is(err, ErrClosed):
		return errEnding
	case err != nil:
		return err
	case v.Reject:
		return errors.New(v.Message)
	case !h.opt.Processes.Alive(s.Process):
		return errors.New("it has ended meanwhile")
	}
	return nil
}

// noteStray keeps a note about a stray, as long as there are not too many.
func noteStray(rec *jobstate.Record, note string) {
	about := func(note string) bool {
		return slices.ContainsFunc(strayNotes, func(begin string) bool { return strings.HasPrefix(note, begin) })
	}
	n := 0
	for _, had := range rec.Notes {
		if about(had) {
			n++
		}
	}
	if n >= maxStrayNotes {
		note = moreStrayNotes
	}
	rec.AddNote(note)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
