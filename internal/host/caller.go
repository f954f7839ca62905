package host

import (
	"context"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
)

// caller is the sender of an event, who waits for its outcome. The zero value is the host itself.
type caller struct {
	outside bool              // a MoM of any kind: usage reported to it counts as reported
	user    bool              // neither root nor MoM: see HandleUser
	pbs     bool              // pbs_mom, through its hook
	mom     hostapi.ProcessID // the pbs_mom process, at a begin; zero means unknown
	home    string            // home directory of pbs_mom: see HandlePBS
	waits   context.Context   // of pbs_mom: ends when nobody waits for the answer any more
}

// class returns the priority of an event in the job's queue.
func (c caller) class(e hostapi.Event) class {
	switch {
	case c.user:
		return request
	case e == hostapi.EventAttach:
		return inquiry
	}
	return course
}

// gone returns the cause if pbs_mom no longer waits for the answer, else nil. If MoM has killed its
// hook or no longer waits for it, MoM treats the event as rejected (openpbs
// src/resmom/mom_hook_func.c, run_hook). Every other caller asks again, or ends the job that it
// began.
func (c caller) gone() error {
	if !c.pbs || c.waits.Err() == nil {
		return nil
	}
	return context.Cause(c.waits)
}

// missed turns the acceptance of an event into a reject if nobody waits for the answer and the
// event must be undone. It reports whether it did so.
func (c caller) missed(e hostapi.Event, v *Verdict) bool {
	gone := c.gone()
	if gone == nil || v.Reject {
		return false
	}
	v.Reject, v.OnReject, v.Kind = true, ActionOn(e, hostapi.KindTimeout), hostapi.KindTimeout
	v.Message = hostapi.OneLine(fmt.Sprintf("%s undone, as nobody waits for its answer any more: %v", e, gone))
	return true
}
