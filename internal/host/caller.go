package host

import (
	"context"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// caller is who has sent an event and waits for its outcome. The zero value is the host itself.
type caller struct {
	outside bool              // a MoM of any kind: what it is told of a job's use counts as told
	user    bool              // anybody but root and MoM: see HandleUser
	pbs     bool              // pbs_mom, through the hook that it runs
	mom     hostapi.ProcessID // that pbs_mom itself, at a begin; zero is not known
	home    string            // of pbs_mom: see JudgePBS
	waits   context.Context   // of pbs_mom: ends when nobody takes the answer any more
}

// class says where in the job's line an event goes.
func (c caller) class(e hostapi.Event) class {
	switch {
	case c.user:
		return request
	case e == hostapi.EventAttach:
		return inquiry
	}
	return course
}

// gone returns the cause if pbs_mom no longer waits for the answer, else nil.
// MoM counts the event as rejected by a hook that it has killed, or has stopped waiting for
// (openpbs src/resmom/mom_hook_func.c, run_hook). Every other caller asks again, or ends what it
// has begun.
func (c caller) gone() error {
	if !c.pbs || c.waits.Err() == nil {
		return nil
	}
	return context.Cause(c.waits)
}

// missed makes a reject of an accepted event that has to be taken back since nobody takes the
// answer, and reports whether it did.
func (c caller) missed(e hostapi.Event, v *Verdict) bool {
	gone := c.gone()
	if gone == nil || v.Reject {
		return false
	}
	v.Reject, v.OnReject, v.Kind = true, ActionOn(e, hostapi.KindTimeout), hostapi.KindTimeout
	v.Message = hostapi.OneLine(fmt.Sprintf("%s undone, as nobody waits for its answer any more: %v", e, gone))
	return true
}

// JudgePBS is Judge for an event that pbs_mom itself has sent, through the hook that it runs.
// home tells apart the MoMs of one host: it is where this one keeps its files, "" when that is not
// known. mom is its process, which counts at a begin; zero is not known. There is more to know
// then:
//
//   - ctx is the hook's: when it ends, nobody takes the answer, and a begin or preresume that is
//     not accepted by then is undone.
//   - Options.PBSHas answers for the job.
//   - The job_list of an exechost_periodic is complete, of this MoM's jobs: see dropUnlisted.
func (h *Host) JudgePBS(ctx context.Context, req *hostapi.Request, home string,
	mom hostapi.ProcessID) (*Verdict, error) {
	own := *req
	own.MoM = nil
	return h.judge(ctx, &own, caller{outside: true, pbs: true, mom: mom, home: home, waits: ctx})
}

// underPBS reports whether pbs_mom, or another MoM that sends this host its events by itself,
// answers for the job.
func underPBS(rec *jobstate.Record) bool { return rec.MoM == nil }

// addLines adds lines for the job's standard error to the record of a job of pbs_mom. The event
// that has them is one at which MoM can take none. MoM gets them with epilogue (addTold).
func addLines(rec *jobstate.Record, lines []string) {
	if rec.PBS {
		rec.AddLines(lines)
	}
}
