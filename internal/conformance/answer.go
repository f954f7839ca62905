package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin"
)

// answer is a hook's answer to an event, as the host gets it.
type answer struct {
	event hostapi.Event
	out   *hostapi.Outcome
	err   error
	raw   []byte // the JSON of out, if it came from the program
}

// judge returns whether the answer obeys the contract, and what to say if it is not ok. The host
// has already checked the outcome (Outcome.Check).
func (a answer) judge() (Result, string) {
	_, lost := errors.AsType[plugin.Unanswered](a.err)
	switch kind := hostapi.KindOf(a.err); {
	case a.err == nil && a.out == nil:
		return Fault, "the program no longer handles the event"
	case a.err == nil:
	case lost:
		return Fault, a.err.Error()
	case kind == hostapi.KindInternal || kind == hostapi.KindTimeout:
		return Fault, fmt.Sprintf("error of kind %s: %v", kind, a.err)
	default:
		return Refused, fmt.Sprintf("error of kind %s: %v", kind, a.err)
	}
	if err := checkText(a.out); err != nil {
		return Fault, err.Error()
	}
	if a.out.Reject {
		return Refused, "rejected: " + a.out.Message
	}
	return OK, ""
}

// checkText checks what people read: hookhost cuts a line that is too long.
func checkText(o *hostapi.Outcome) error {
	if strings.ContainsAny(o.Message, "\r\n") {
		return errors.New("message: more than one line")
	}
	lines := map[string][]string{"message": {o.Message}, "notes": o.Notes, "job_stderr": o.JobStderr}
	for key, texts := range lines {
		for _, text := range texts {
			if len(text) > hostapi.MaxLine {
				return fmt.Errorf("%s: a line of %d bytes: the limit is %d", key, len(text), hostapi.MaxLine)
			}
		}
	}
	return nil
}

// differs names the first decision in which the answer to a repeated event differs from the first
// answer, or returns "". Measurements may differ.
func (a answer) differs(first answer) string {
	was, is := first.out, a.out
	for _, d := range []struct {
		key     string
		was, is any
	}{
		{"job_action", was.OnReject, is.OnReject}, {"progname", was.Progname, is.Progname},
		{"argv", was.Argv, is.Argv}, {"set_env", was.SetEnv, is.SetEnv}, {"unset_env", was.UnsetEnv, is.UnsetEnv},
		{"attach_env", was.AttachEnv, is.AttachEnv}, {"walltime_limit", was.WalltimeLimit, is.WalltimeLimit},
	} {
		if !reflect.DeepEqual(d.was, d.is) {
			return fmt.Sprintf("%s is %s, and was %s the first time", d.key, show(d.is), show(d.was))
		}
	}
	return ""
}

// show returns a value as JSON for people.
func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return hostapi.Clip(string(text), 200)
}
