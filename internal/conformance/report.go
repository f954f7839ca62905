package conformance

import (
	"slices"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// Result is the result of a check.
type Result string

const (
	Untested Result = "untested" // the program did not start, or the job did not begin
	OK       Result = "ok"
	Refused  Result = "refused" // the hook refused the event
	Fault    Result = "fault"   // the program violates the contract
)

// Report is what a test of a program found.
type Report struct {
	Hook    string          `json:"hook"` // its name during the test
	Program string          `json:"program"`
	Events  []hostapi.Event `json:"events"` // that the hook handles
	Passed  bool            `json:"passed"` // every result is ok
	Checks  []*Check        `json:"checks"`
	Log     []string        `json:"log,omitempty"` // what hookhost logged about the program, if it did not pass
}

// Check is one requirement, or everything about one event.
type Check struct {
	Name   string   `json:"name"`
	Result Result   `json:"result"`
	Found  []string `json:"found,omitempty"` // faults and refusals, a line each
	Notes  []string `json:"notes,omitempty"` // what is allowed and may surprise

	// Seconds is how long it took: the start, the end, or the slowest first call of the event.
	Seconds float64 `json:"seconds,omitempty"`
}

// Count returns how many checks have that result.
func (r *Report) Count(result Result) (n int) {
	for _, c := range r.Checks {
		if c.Result == result {
			n++
		}
	}
	return n
}

// check returns the check of that name, adding it if it is new. It is untested until it is done.
func (r *Report) check(name string) *Check {
	i := slices.IndexFunc(r.Checks, func(c *Check) bool { return c.Name == name })
	if i < 0 {
		i = len(r.Checks)
		r.Checks = append(r.Checks, &Check{Name: name, Result: Untested})
	}
	return r.Checks[i]
}

// add adds a finding, once; how is the circumstance, "" for an ordinary call. A fault outweighs a
// refusal.
func (c *Check) add(result Result, how, text string) {
	if how != "" {
		text = how + ": " + text
	}
	if c.Result != Fault {
		c.Result = result
	}
	if text = hostapi.OneLine(text); !slices.Contains(c.Found, text) {
		c.Found = append(c.Found, text)
	}
}

// done makes the result ok unless something was found.
func (c *Check) done() {
	if c.Result == Untested {
		c.Result = OK
	}
}

// note adds a note, once.
func (c *Check) note(text string) {
	if !slices.Contains(c.Notes, text) {
		c.Notes = append(c.Notes, text)
	}
}

func (c *Check) took(d time.Duration) { c.Seconds = max(c.Seconds, d.Seconds()) }
