package host

import (
	"slices"

	"github.com/hookhost/hookhost/hostapi"
)

// foreign reports whether an event of another host is about a job, or a run of it, that this host
// has not from there. Then nothing is to be carried out: what pbs_mom, this host or a third one has
// begun is theirs to end, whatever its id.
func (h *Host) foreign(req *hostapi.Request) bool {
	rec := h.opt.Store.Get(req.Job.ID)
	return rec == nil || rec.Head != req.Head || rec.Run != req.Run
}

// ofTheEnd are the events that a host may repeat, or send late.
var ofTheEnd = []hostapi.Event{hostapi.EventPreterm, hostapi.EventAbort, hostapi.EventEpilogue, hostapi.EventEnd}

// notYours answers an event that is foreign. An event that ends a job is accepted with nothing
// done, so that a host may repeat it until it is answered. The answer does not say whether there is
// such a job of somebody else's.
func notYours(req *hostapi.Request) (*Verdict, error) {
	if slices.Contains(ofTheEnd, req.Event) {
		return &Verdict{Outcome: &hostapi.Outcome{}}, nil
	}
	return nil, hostapi.Errorf(hostapi.KindJob, "job %s: not found", req.Job.ID)
}
