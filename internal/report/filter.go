package report

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/spelling"
)

// Filter selects the reports of a list. The zero Filter selects every job that has ended.
type Filter struct {
	Job    string    // the id, or its beginning up to a dot; see pbs.NamesJob
	Name   string    // of the job; case does not matter
	Array  string    // of which the jobs are subjobs; see pbs.InArray
	User   string    // the owner, by name or number
	Since  time.Time // ended then or later, or has not ended
	Until  time.Time // ended before
	States []string  // any of them; see StateNames
	Host   string    // on which the job runs or ran
	// Limit is the largest number of reports, newest first. 0 means all, oldest first.
	Limit int
}

// The states of a job. A job may have several of them.
const (
	stateRunning  = "running"
	stateFinished = "finished"
	stateOK       = "ok"
	stateFailed   = "failed"
	stateKilled   = "killed"
	stateOOM      = "oom"
	stateTimeout  = "timeout"
	// Ended on request: qdel, qrerun, preemption.
	stateCancelled = "cancelled"
	stateNode      = "node_failure"
	stateNone      = "not_started"
)

// states maps each state to a function that reports whether a job is in it.
var states = map[string]func(*Report) bool{
	stateRunning:  func(r *Report) bool { return r.End == nil },
	stateFinished: func(r *Report) bool { return r.End != nil },
	stateOK:       func(r *Report) bool { return r.End != nil && r.ExitStatus != nil && *r.ExitStatus == 0 },
	stateFailed: func(r *Report) bool {
		return r.End != nil && (r.ExitStatus == nil && !r.ofOtherHost() || r.ExitStatus != nil && *r.ExitStatus != 0)
	},
	stateKilled: func(r *Report) bool { return r.End != nil && r.ExitStatus != nil && signalOf(*r.ExitStatus) > 0 },
	stateOOM: func(r *Report) bool {
		return r.End != nil && (r.totals().oomKills > 0 || r.Outcome.State == stateOOM)
	},
	stateTimeout:   func(r *Report) bool { return r.Outcome.State == stateTimeout },
	stateCancelled: func(r *Report) bool { return r.Outcome.State == stateCancelled },
	stateNode:      func(r *Report) bool { return r.Outcome.State == stateNode },
	stateNone:      func(r *Report) bool { return r.NotStarted },
}

// StateNames returns the states that a Filter knows.
func StateNames() []string {
	return slices.Concat([]string{stateRunning, stateFinished}, endStates)
}

// endStates are the states of jobs that have ended, except stateFinished.
var endStates = []string{stateOK, stateFailed, stateKilled, stateOOM, stateTimeout, stateCancelled, stateNode,
	stateNone}

// States returns the states of a job that has ended, except finished, in a fixed order.
func (r *Report) States() []string {
	return slices.DeleteFunc(slices.Clone(endStates), func(name string) bool { return !states[name](r) })
}

// AllStates returns every result that States can have.
func AllStates() [][]string {
	all := [][]string{{}, {stateOK}, {stateFailed}, {stateFailed, stateKilled}}
	for _, more := range [][]string{{stateOOM}, {stateTimeout, stateCancelled, stateNode}, {stateNone}} {
		for _, states := range slices.Clone(all) {
			for _, state := range more {
				all = append(all, slices.Concat(states, []string{state}))
			}
		}
	}
	return all
}

// HasStates reports whether the filter may choose a job that has ended and is in these States.
func (f Filter) HasStates(of []string) bool {
	return len(f.States) == 0 || slices.ContainsFunc(f.States, func(name string) bool {
		return name == stateFinished || slices.Contains(of, name)
	})
}

// Live reports whether jobs that have not ended may match.
func (f Filter) Live() bool { return slices.Contains(f.States, stateRunning) && f.Until.IsZero() }

// Finished reports whether jobs that have ended may match.
func (f Filter) Finished() bool {
	return len(f.States) == 0 || slices.ContainsFunc(f.States, func(name string) bool { return name != stateRunning })
}

// Check returns an error for an unknown state.
func (f Filter) Check() error {
	for _, name := range f.States {
		if states[name] == nil {
			return spelling.Unknown("state", name, StateNames())
		}
	}
	return nil
}

// Matches reports whether f selects a report. It ignores Limit.
func (f Filter) Matches(r *Report) bool {
	switch {
	case f.Job != "" && !f.MatchesJob(r):
	case f.Name != "" && !strings.EqualFold(f.Name, r.Name):
	case f.Array != "" && !pbs.InArray(f.Array, r.Job):
	case f.User != "" && !f.ofUser(r):
	case !f.Since.IsZero() && r.End != nil && r.End.Before(f.Since):
	case !f.Until.IsZero() && (r.End == nil || !r.End.Before(f.Until)):
	case len(f.States) == 0 && r.End == nil:
	case len(f.States) > 0 && !slices.ContainsFunc(f.States, func(name string) bool { return states[name](r) }):
	case f.Host != "" && !f.onHost(r):
	default:
		return true
	}
	return false
}

// MatchesJob reports whether f.Job names the job of a report.
func (f Filter) MatchesJob(r *Report) bool { return pbs.NamesJob(f.Job, r.Job) }

func (f Filter) ofUser(r *Report) bool {
	if r.Owner == f.User {
		return true
	}
	uid, err := strconv.Atoi(f.User)
	return err == nil && r.PBSJob != nil && r.PBSJob.Owner.UID == uid
}

// onHost also returns true for a host whose figures are missing.
func (f Filter) onHost(r *Report) bool {
	is := func(name string) bool { return pbs.SameHost(name, f.Host) }
	if slices.ContainsFunc(slices.AppendSeq(r.hostNames(), maps.Keys(r.Missing)), is) {
		return true
	}
	if r.PBSJob == nil {
		return false
	}
	hosts, err := pbs.Hosts(r.PBSJob.ExecVnode, r.PBSJob.ExecHost2)
	return err == nil && slices.ContainsFunc(hosts, is)
}

// Values returns the filter as a query that ParseFilter reads.
func (f Filter) Values() url.Values {
	v := url.Values{}
	set := func(key, value string, is bool) {
		if is {
			v.Set(key, value)
		}
	}
	set("job", f.Job, f.Job != "")
	set("name", f.Name, f.Name != "")
	set("array", f.Array, f.Array != "")
	set("user", f.User, f.User != "")
	set("since", f.Since.Format(time.RFC3339Nano), !f.Since.IsZero())
	set("until", f.Until.Format(time.RFC3339Nano), !f.Until.IsZero())
	set("state", strings.Join(f.States, ","), len(f.States) > 0)
	set("host", f.Host, f.Host != "")
	set("limit", strconv.Itoa(f.Limit), f.Limit > 0)
	return v
}

// ParseFilter returns the filter of a query. An unknown key is an error.
func ParseFilter(v url.Values) (f Filter, err error) {
	for key := range v {
		value := v.Get(key)
		switch key {
		case "job":
			f.Job = value
		case "name":
			f.Name = value
		case "array":
			f.Array = value
		case "user":
			f.User = value
		case "since":
			f.Since, err = time.Parse(time.RFC3339Nano, value)
		case "until":
			f.Until, err = time.Parse(time.RFC3339Nano, value)
		case "state":
			f.States = strings.Split(value, ",")
			err = f.Check()
		case "host":
			f.Host = value
		case "limit":
			if f.Limit, err = strconv.Atoi(value); err == nil && f.Limit < 0 {
				err = fmt.Errorf("%d is negative", f.Limit)
			}
		default:
			err = fmt.Errorf("no such key")
		}
		if err != nil {
			return Filter{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	return f, nil
}
