package host

import (
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// Verdict is the merged answer of all hooks to an event, with the hook to name in the log.
type Verdict struct {
	*hostapi.Outcome

	// Hook is the first hook that rejected the event or failed. Kind is the kind of its error; ""
	// for a plain reject.
	Hook string
	Kind hostapi.Kind
}

// outcomeOf returns what the caller of Handle gets.
func outcomeOf(v *Verdict) *hostapi.Outcome {
	if v == nil {
		return nil
	}
	return v.Outcome
}

// heldText ends the message of a verdict that holds the job. It is the text of pbs_cgroups (main's
// except clauses), which people search for in mom_logs.
const heldText = " (system hold set)"

// Add adds to the message of the verdict, up to the length that a line may have. A hook may pass on
// text that a user has chosen, and it reaches the log, MoM and the job.
func (v *Verdict) Add(text string) {
	text = strings.TrimSuffix(hostapi.OneLine(joinLines(strings.TrimSuffix(v.Message, heldText), text)), heldText)
	v.Message = hostapi.Clip(text, hostapi.MaxLine)
	if v.Reject && v.OnReject == hostapi.JobActionHold {
		v.Message += heldText
	}
}

// passOn adds the usage that a late begin reported to the verdict of the event that caused it.
func (v *Verdict) passOn(to *Verdict) {
	if v == nil {
		return
	}
	for name, value := range v.ResourcesUsed {
		if _, told := to.ResourcesUsed[name]; !told {
			put(&to.ResourcesUsed, name, value)
		}
	}
}
