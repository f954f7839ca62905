package report

import (
	"cmp"
	"fmt"
	"regexp"
)

// Outcome is how a job ended: its state as in lists, the words for people, and what is behind them.
// A live job has the state running.
type Outcome struct {
	State  string `json:"state"`            // one of StateNames; "" if unknown
	Words  string `json:"words"`            // "walltime exceeded", "failed with status 3"
	Reason string `json:"reason,omitempty"` // "" if the words say everything
}

// String returns the words with the reason.
func (o Outcome) String() string {
	if o.Reason == "" {
		return o.Words
	}
	return o.Words + ": " + o.Reason
}

// outcome derives the outcome from the facts of the report. If PBS or hookhost ended the job, that
// comes first: the exit status then says nothing about the job.
func (r *Report) outcome() Outcome {
	switch {
	case r.NotStarted:
		reason := pbsStatus[*r.ExitStatus].Reason
		if r.Terminated {
			reason = onRequest
		}
		return Outcome{stateNone, "not started", withStatus(reason, *r.ExitStatus)}
	case r.End == nil && r.Start == nil:
		return Outcome{"", "not started", ""}
	case r.End == nil && r.ExitStatus != nil:
		return Outcome{stateRunning, "ending", exitText(*r.ExitStatus)}
	case r.End == nil && r.kills() != "":
		return Outcome{stateRunning, "running", r.kills() + forMemory}
	case r.End == nil:
		return Outcome{stateRunning, "running", ""}
	}
	o := r.endedFor(r.exceeded())
	if o.Words == "" && r.Terminated {
		o = Outcome{stateCancelled, "cancelled", onRequest}
	}
	if o.Words == "" && r.ExitStatus == nil {
		o = r.endedUnseen()
	}
	if o.Words == "" && *r.ExitStatus >= 0 {
		return r.endedItself(*r.ExitStatus)
	}
	if o.Words == "" {
		o = cmp.Or(pbsStatus[*r.ExitStatus], Outcome{stateFailed, "ended by PBS", ""})
	}
	if kills := r.kills(); kills != "" {
		o.Reason += "; before that, " + kills + forMemory
	}
	if r.ExitStatus != nil {
		o.Reason = withStatus(o.Reason, *r.ExitStatus)
	}
	return o
}

const (
	onRequest = "it was ended on request, as by qdel"
	forMemory = " for lack of memory"
)

// exceededLimit finds a limit in the message of pbs_mom, or of hookhost, about a job that it ends
// (openpbs src/resmom/mom_main.c, mom_over_limit).
var exceededLimit = regexp.MustCompile(`job killed: (walltime|cput|vmem|mem) .*exceeded limit`)

// exceeded returns the limit for which pbs_mom or hookhost ended the job, "" if that was not the
// reason.
func (r *Report) exceeded() string {
	if r.ExitStatus != nil && limitStatus[*r.ExitStatus] != "" {
		return limitStatus[*r.ExitStatus]
	}
	for _, text := range r.DiagMessages {
		if found := exceededLimit.FindStringSubmatch(text); found != nil {
			return found[1]
		}
	}
	return ""
}

// endedFor returns the outcome of a job that exceeded the limit; the zero Outcome for "".
func (r *Report) endedFor(limit string) Outcome {
	t := r.totals()
	switch limit {
	case "":
		return Outcome{}
	case "walltime":
		o := Outcome{stateTimeout, "walltime exceeded", "it was ended"}
		if t.walltime != nil {
			o.Reason += " after " + clock(*t.walltime)
		}
		if t.wallLimit != nil {
			o.Reason += "; it had requested " + clock(*t.wallLimit)
		}
		return o
	case "mem", "vmem":
		return Outcome{stateOOM, "out of memory", "it was ended because it used more than its " + limit}
	}
	return Outcome{stateFailed, limit + " exceeded", "it was ended because it used more than its " + limit}
}

// endedUnseen returns the outcome of a job whose exit status is not known here.
func (r *Report) endedUnseen() Outcome {
	if r.ofOtherHost() {
		return Outcome{"", "ended", "the exit status is in the report of the job's first host"}
	}
	return Outcome{stateFailed, "ended", "the exit status is not known"}
}

// ofOtherHost reports whether the report is not of the job's first host, which has its exit status.
func (r *Report) ofOtherHost() bool { return r.PBSJob != nil && !r.PBSJob.MotherSuperior }

// endedItself returns the outcome of a job that ended with a status of its leading program, or by
// somebody's signal.
func (r *Report) endedItself(status int) Outcome {
	kills, n := r.kills(), signalOf(status)
	switch {
	case status == 0 && kills != "":
		return Outcome{stateOK, "completed", "exit status 0, but " + kills + forMemory}
	case status == 0:
		return Outcome{stateOK, "completed", ""}
	case kills != "":
		return Outcome{stateOOM, "out of memory", withStatus(kills, status)}
	case n > 0:
		return Outcome{stateKilled, "killed by " + signalName(n),
			inBrackets(signalReason[signalName(n)], fmt.Sprintf("Exit_status %d", status))}
	}
	return Outcome{stateFailed, fmt.Sprintf("failed with status %d", status),
		cmp.Or(statusReason[status], "the job's own status; its output may say why")}
}

// kills describes the processes that the kernel killed because memory ran out, "" if there are
// none.
func (r *Report) kills() string {
	n := r.totals().oomKills
	if n == 0 {
		return ""
	}
	return "the kernel killed " + count(n, "process", "processes") + " of the job" + r.oomWhere()
}
