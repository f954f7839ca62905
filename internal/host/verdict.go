package host

import (
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// Verdict is what all hooks together made of an event, and which of them it is to be logged with.
type Verdict struct {
	*hostapi.Outcome

	// Hook is the first hook that rejected the event or failed, and Kind its error's; "" for a
	// plain reject.
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

// heldText ends the message of a verdict that holds the job, as in pbs_cgroups (main's except
// clauses): what people look for in mom_logs.
const heldText = " (system hold set)"

// Add adds to the message of the verdict, as far as a line may have. A hook may pass on what a user
// has chosen, and the log, MoM and the job get it.
func (v *Verdict) Add(text string) {
	text = strings.TrimSuffix(hostapi.OneLine(joinLines(strings.TrimSuffix(v.Message, heldText), text)), heldText)
	v.Message = hostapi.Clip(text, hostapi.MaxLine)
	if v.Reject && v.OnReject == hostapi.JobActionHold {
		v.Message += heldText
	}
}

// passOn adds what a late begin told of the job's use to the verdict of the event that has caused
// it.
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
