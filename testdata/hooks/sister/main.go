// Program sister is a hook that writes down what it gets, and reports what a job uses. Tests see by
// it what goes on between hosts.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

type hook struct {
	// a file that gets a line per event: event, job id, signal, what other hosts have used
	Log     string   `toml:"log"`
	CPUT    float64  `toml:"cput"`    // what a job has used here, in seconds
	Mem     string   `toml:"mem"`     // and its memory
	Says    string   `toml:"says"`    // line for the job's standard error and note at epilogue
	Again   string   `toml:"again"`   // a duration: begin asks for a call so long from then, other hosts being asked
	Ask     bool     `toml:"ask"`     // have other hosts asked before that call
	Signal  string   `toml:"signal"`  // signal to other hosts at each call that was asked for
	Signals []string `toml:"signals"` // signals to other hosts that prologue tells between events, in this order

	tell func(string, *hostapi.JobUpdate)
}

func newHook(s *hostapi.Setup) (any, error) {
	h := &hook{tell: s.Tell}
	return h, s.Decode(h)
}

func (h *hook) write(e hostapi.Event, job *hostapi.Job, signal string) error {
	f, err := os.OpenFile(h.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	other := "-"
	if job.OtherCPUTSeconds != nil {
		other = fmt.Sprint(*job.OtherCPUTSeconds)
	}
	if signal == "" {
		signal = "-"
	}
	_, err = fmt.Fprintf(f, "%s %s %s %s\n", e, job.ID, signal, other)
	return errors.Join(err, f.Close())
}

func (h *hook) usage() *hostapi.HostUsage {
	if h.CPUT == 0 {
		return nil
	}
	return &hostapi.HostUsage{NCPUs: 1, CPUTSeconds: &h.CPUT}
}

func (h *hook) note(req *hostapi.Request) (*hostapi.Outcome, error) {
	return nil, h.write(req.Event, req.Job, req.Signal)
}

func (h *hook) ExecjobBegin(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	again, err := time.ParseDuration(h.Again)
	if h.Again == "" {
		err = nil
	}
	return &hostapi.Outcome{CallAgain: again, AskSisters: h.Ask}, errors.Join(err, h.write(req.Event, req.Job, ""))
}

func (h *hook) ExecjobPrologue(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	for _, s := range h.Signals {
		h.tell(req.Job.ID, &hostapi.JobUpdate{SignalSisters: s})
	}
	return h.note(req)
}

func (h *hook) ExecjobEpilogue(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{Usage: h.usage(), ResourcesUsed: hostapi.Resources{"mem": h.Mem, "walltime": "00:00:07"}}
	if h.Mem == "" {
		delete(out.ResourcesUsed, "mem")
	}
	if h.Says != "" {
		out.JobStderr, out.Notes, out.Diag = []string{h.Says}, []string{"note: " + h.Says}, "diag: "+h.Says
	}
	return out, h.write(req.Event, req.Job, "")
}

func (h *hook) ExechostPeriodic(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{}}
	for id, job := range req.JobList {
		u := &hostapi.JobUpdate{Usage: h.usage()}
		if req.Partial && h.Again != "" {
			u.SignalSisters = h.Signal
		}
		out.Jobs[id] = u
		if err := h.write(req.Event, job, ""); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (h *hook) ExecjobResize(_ context.Context, r *hostapi.Request) (*hostapi.Outcome, error) {
	return h.sized(r)
}
func (h *hook) ExecjobPostsuspend(_ context.Context, r *hostapi.Request) (*hostapi.Outcome, error) {
	return h.note(r)
}
func (h *hook) ExecjobPreresume(_ context.Context, r *hostapi.Request) (*hostapi.Outcome, error) {
	return h.note(r)
}
func (h *hook) ExecjobPreterm(_ context.Context, r *hostapi.Request) (*hostapi.Outcome, error) {
	return h.note(r)
}
func (h *hook) ExecjobAbort(_ context.Context, r *hostapi.Request) (*hostapi.Outcome, error) {
	return h.note(r)
}
func (h *hook) ExecjobEnd(_ context.Context, r *hostapi.Request) (*hostapi.Outcome, error) {
	return h.note(r)
}

// sized writes down the size that the job gets.
func (h *hook) sized(r *hostapi.Request) (*hostapi.Outcome, error) {
	return nil, h.write(r.Event, r.Job, r.Job.ResourceList["ncpus"])
}

func main() { hostapi.Serve(newHook) }
