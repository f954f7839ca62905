package main

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// firstLook and secondLook are when a job is checked in addition to the periodics, counted from its
// first process here. Most ranks start early, and a short job sees no periodic.
const (
	firstLook  = 2 * time.Second
	secondLook = 10 * time.Second
)

// lookTime limits a search for strays, and also one for ranks. A user can have more processes than
// can be read before the alarm, when this program would be killed. The next search continues.
const lookTime = 8 * time.Second

// soonAgain is the pause before a scan is repeated that found more processes than the host accepts
// at once. It is longer than the minimum interval between scans.
const soonAgain = 6 * time.Second

// ExecjobBegin asks the host to have the job checked once it runs.
func (h *hook) ExecjobBegin(context.Context, *hostapi.Request) (*hostapi.Outcome, error) {
	if h.ranks == nil {
		return &hostapi.Outcome{}, nil
	}
	return &hostapi.Outcome{CallAtElapsed: firstLook}, nil
}

// ExechostPeriodic reports the ranks of the listed jobs on this host, and processes that are
// outside their jobs. A process that cannot be read is skipped and logged. That must not affect any
// job, or make this program look broken.
func (h *hook) ExechostPeriodic(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{}}
	var errs []error
	if h.strays != nil {
		limited, cancel := context.WithTimeout(ctx, lookTime)
		found, err := h.strays.scan(limited, req.JobList, req.Partial)
		cancel()
		errs = append(errs, err)
		maps.Copy(out.Jobs, found)
	}
	if h.ranks != nil {
		if !req.Partial {
			h.ranks.forgetOthers(req.JobList)
		}
		limited, cancel := context.WithTimeout(ctx, lookTime)
		for id, job := range req.JobList {
			errs = append(errs, h.addRanks(limited, id, job, out))
		}
		cancel()
	}
	for _, u := range out.Jobs {
		if len(u.Strays) == hostapi.MaxStrays { // there may be more
			u.CallAgain, u.CallAtElapsed = soonAgain, 0
		}
	}
	if !req.Partial && h.aux != "" {
		errs = append(errs, sweep(h.aux, req.JobList, time.Minute))
	}
	if err := errors.Join(errs...); err != nil {
		h.log.Warn(err)
	}
	return out, nil
}

// addRanks adds the job's ranks to the outcome.
func (h *hook) addRanks(ctx context.Context, id string, job *hostapi.Job, out *hostapi.Outcome) error {
	found, err := h.ranks.find(ctx, id, job.Owner.UID)
	again := len(found) == 0 && job.Elapsed >= firstLook && job.Elapsed < secondLook
	if len(found) == 0 && !again {
		return err
	}
	u := out.Jobs[id]
	if u == nil {
		u = &hostapi.JobUpdate{}
		out.Jobs[id] = u
	}
	if again {
		u.CallAtElapsed = secondLook
	}
	if len(found) > 0 {
		if u.Usage == nil {
			u.Usage = &hostapi.HostUsage{}
		}
		u.Usage.Ranks = found
	}
	return err
}
