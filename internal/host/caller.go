package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// caller is the sender of an event, who waits for its outcome. The zero value is the host itself.
type caller struct {
	outside bool              // a MoM of any kind: usage reported to it counts as reported
	user    bool              // neither root nor MoM: see HandleUser
	pbs     bool              // pbs_mom, through its hook
	mom     hostapi.ProcessID // the pbs_mom process, at a begin; zero means unknown
	home    string            // home directory of pbs_mom: see JudgePBS
	waits   context.Context   // of pbs_mom: ends when nobody takes the answer any more
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
// src/resmom/mom_hook_func.c, run_hook). Every other caller asks again, or ends what it began.
func (c caller) gone() error {
	if !c.pbs || c.waits.Err() == nil {
		return nil
	}
	return context.Cause(c.waits)
}

// missed turns the acceptance of an event into a reject when nobody takes the answer and the event
// has to be undone. It reports whether it did so.
func (c caller) missed(e hostapi.Event, v *Verdict) bool {
	gone := c.gone()
	if gone == nil || v.Reject {
		return false
	}
	v.Reject, v.OnReject, v.Kind = true, ActionOn(e, hostapi.KindTimeout), hostapi.KindTimeout
	v.Message = hostapi.OneLine(fmt.Sprintf("%s undone, as nobody waits for its answer any more: %v", e, gone))
	return true
}

// JudgePBS is Judge for an event that pbs_mom itself has sent, through its hook. home is the
// directory with that MoM's files and tells apart the MoMs of one host; "" means unknown. mom is
// its process, which matters at a begin; zero means unknown. JudgePBS differs from Judge in three
// points:
//
//   - ctx belongs to the hook: when it ends, nobody takes the answer, and a begin or preresume that
//     is not accepted by then is undone.
//   - Options.PBSHas answers for the job.
//   - The job_list of an exechost_periodic is a complete list of this MoM's jobs: see dropUnlisted.
func (h *Host) JudgePBS(ctx context.Context, req *hostapi.Request, home string,
	mom hostapi.ProcessID) (*Verdict, error) {
	own := *req
	own.MoM = nil
	return h.judge(ctx, &own, caller{outside: true, pbs: true, mom: mom, home: home, waits: ctx})
}

// underPBS reports whether pbs_mom, or another MoM that sends its own events to this host, is
// responsible for the job.
func underPBS(rec *jobstate.Record) bool { return rec.MoM == nil }

// addLines adds lines for the job's standard error to the record of a job of pbs_mom. MoM accepts
// no such lines at the event that produced them. MoM gets them with epilogue (addTold).
func addLines(rec *jobstate.Record, lines []string) {
	if rec.PBS {
		rec.AddLines(lines)
	}
}

// addTold adds the lines that the record holds to the outcome of epilogue, each once: pbs_mom
// learns of them nowhere else. It also adds the diagnostics of earlier events.
func addTold(out *hostapi.Outcome, rec *jobstate.Record, node string) {
	lines := slices.Clone(rec.Told)
	for _, text := range out.JobStderr {
		if !slices.Contains(rec.Told, text) {
			lines = append(lines, text)
		}
	}
	out.JobStderr = lines
	if told := rec.Diag[node]; strings.Contains(told, out.Diag) {
		out.Diag = told
	}
}
