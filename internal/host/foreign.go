package host

import (
	"context"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
)

// foreign tells whether an event of another host is about a job, or a run of it, that this host has not from there. Then nothing
// is to be carried out: what pbs_mom, this host or a third one has begun is theirs to end, whatever its id.
func (h *Host) foreign(ctx context.Context, req *hostapi.Request) (bool, error) {
	rec, err := h.record(ctx, req.Job.ID)
	if err != nil {
		return false, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	return rec == nil || rec.Head != req.Head || rec.Run != req.Run, nil
}

// ofTheEnd are the events that a host may repeat, or send late.
var ofTheEnd = []hostapi.Event{hostapi.EventPreterm, hostapi.EventAbort, hostapi.EventEpilogue, hostapi.EventEnd}

// notYours answers an event that is foreign. What ends a job is accepted with nothing done, so that a host may repeat it until
// it is answered. Whether there is such a job, of somebody else's, the answer does not tell.
func notYours(req *hostapi.Request) (*Verdict, error) {
	if slices.Contains(ofTheEnd, req.Event) {
		return &Verdict{Outcome: &hostapi.Outcome{}}, nil
	}
	return nil, hostapi.Errorf(hostapi.KindJob, "job %s: not found", req.Job.ID)
}
