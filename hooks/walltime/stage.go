package main

import (
	"fmt"
	"time"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pbs"
)

// stage is how far the end of a job has progressed. A job never goes back to running: after SIGTERM
// it will end, even if its limit changes.
type stage string

const (
	running    stage = ""
	terminated stage = "terminated" // it got SIGTERM, or no process is left after SIGKILL
	killing    stage = "killing"    // it repeatedly gets SIGKILL
	unkillable stage = "unkillable" // the same after kill_timeout
)

// progress is the current state of a job. Times are in the job's elapsed time.
type progress struct {
	Stage    stage `json:"stage,omitempty"`
	Warned   int   `json:"warned,omitempty"`    // how many of its warnings have been handled
	SoftTold bool  `json:"soft_told,omitempty"` // exceeding soft_walltime was reported
	Hastened bool  `json:"hastened,omitempty"`  // it got cpu time to die from pbs_mom's signals

	Reason     string        `json:"reason,omitempty"`     // why it is ended: "walltime 3 exceeded limit 3"
	Terminated time.Duration `json:"terminated,omitempty"` // when it got SIGTERM
	Spared     time.Duration `json:"spared,omitempty"`     // when SIGKILL was first put off because of a core dump
	Killing    time.Duration `json:"killing,omitempty"`    // when all processes first got SIGKILL
	Tries      int           `json:"tries,omitempty"`      // how often all processes got SIGKILL

	Next time.Duration `json:"next,omitempty"` // nothing is due before this; 0 means never
}

// facts are a snapshot of a job.
type facts struct {
	Elapsed   time.Duration  // how long it has run
	Grace     time.Duration  // from SIGTERM to SIGKILL; for a running job only if it exceeds a limit
	CPU       *time.Duration // cpu time used; nil if unknown
	Uncounted bool           // this node does not count cpu time
	CPUs      int            // the job can run on
	Alive     int            // processes; for a running job only if it exceeds a limit, and 1 may stand for any number
	Dumping   int            // how many of them are writing a core dump
	Suspended bool
	Up        time.Duration // how long this program has been running
	PIDs      []int         // of a running job over a limit; nil if not read
}

// orders are the actions to take now, in the order of the fields.
type orders struct {
	Hasten  bool             // call cgroup.Job.Hasten
	Signals []config.Warning // warnings to send
	Do      deed
	GiveUp  bool // report the remaining processes

	Lines []string // for the job's standard error
	Diag  string
	Notes []string
}

// deed is an action on the whole job.
type deed int

const (
	nothing deed = iota
	terminate
	killOthers // all except those that dump core and the leading program
	kill
)

const (
	lookDump  = time.Second      // between checks of a core dump
	lookAgain = time.Minute      // between checks of a job that should have ended but has not
	blindLook = 10 * time.Second // if the used cpu time could not be read
	muchLate  = time.Second      // greater delays are reported
)

// step decides which actions are due for a job. It has no side effects: the same facts give the
// same result.
func (p *policy) step(l limits, was progress, f facts) (progress, orders) {
	if was.Next == 0 || f.Elapsed < was.Next {
		return was, orders{}
	}
	s, o := was, orders{}
	if f.Suspended { // the job was suspended when this was already due
		s.Next = f.Elapsed + lookDump
		return s, o
	}
	switch {
	case s.Stage == running:
		p.run(l, &s, f, &o)
	case f.Alive == 0:
		// A process that appears later, as on a sister host, is ended then.
		s.Stage, s.Spared, s.Killing, s.Tries = terminated, 0, 0, 0
		s.Next = f.Elapsed + lookAgain
	case s.Stage == terminated && f.Elapsed < s.Terminated+f.Grace:
		s.Next = s.Terminated + f.Grace
	default:
		p.kill(&s, f, &o)
	}
	return s, o
}

// run handles a job that is not being ended yet.
func (p *policy) run(l limits, s *progress, f facts, o *orders) {
	if l.Soft > 0 && !s.SoftTold && f.Elapsed >= l.Soft {
		s.SoftTold = true
		o.Notes = append(o.Notes,
			fmt.Sprintf("ran longer than its soft_walltime of %d seconds, which ends nothing", l.Soft/time.Second))
	}
	if reason := l.exceeded(f); reason != "" {
		if f.Alive == 0 {
			s.Next = f.Elapsed + lookAgain
			return
		}
		s.end(reason, l.late(*s, f), f, o)
		return
	}
	if l.MoM > 0 && !s.Hastened && f.Elapsed >= l.MoM { // MoM sends SIGTERM and SIGKILL without asking a hook
		s.Hastened, o.Hasten = true, true
	}
	s.warn(l, f, o)
	s.Next = l.next(*s)
	if l.CPUT > 0 && f.Uncounted {
		o.Notes = append(o.Notes, "its limit of cput ends nothing, as nobody counts cpu time on this node")
	} else if l.CPUT > 0 {
		look := f.Elapsed + blindLook
		if f.CPU != nil {
			look = f.Elapsed + nextLook(l.CPUT, *f.CPU, f.CPUs)
		}
		if s.Next == 0 || look < s.Next {
			s.Next = look
		}
	}
}

// exceeded names the limit that the job exceeds, in the words of pbs_mom (openpbs
// src/resmom/mom_mach.c, mom_over_limit), or "".
func (l limits) exceeded(f facts) string {
	over := func(what string, used, limit time.Duration) string {
		return fmt.Sprintf("%s %d exceeded limit %d", what, used/time.Second, limit/time.Second)
	}
	switch {
	case l.End > 0 && f.Elapsed >= l.End:
		return over(walltime, f.Elapsed, l.Walltime)
	case l.CPUT > 0 && f.CPU != nil && *f.CPU >= l.CPUT:
		return over(cput, *f.CPU, l.CPUT)
	}
	return ""
}

// late returns how long ago the job should have been ended for exceeding a limit. For cput that is
// uncertain: all cpus may have used the time beyond the limit at once, or fewer over a longer time.
func (l limits) late(s progress, f facts) time.Duration {
	if l.End > 0 && f.Elapsed >= l.End {
		return f.Elapsed - max(s.Next, l.End)
	}
	return (*f.CPU - l.CPUT) / time.Duration(max(f.CPUs, 1))
}

// end orders SIGTERM for the job. late is the delay.
func (s *progress) end(reason string, late time.Duration, f facts, o *orders) {
	s.Stage, s.Reason, s.Terminated = terminated, reason, f.Elapsed
	s.Next = f.Elapsed + max(f.Grace, 1)
	o.Do = terminate
	o.Lines = append(o.Lines, "=>> PBS: job killed: "+reason)
	o.Diag = "job killed: " + reason
	o.Notes = append(o.Notes, fmt.Sprintf("ended by hookhost: %s: SIGTERM", reason))
	if late <= muchLate {
		return
	}
	why := "the node was too busy"
	if f.Up < late {
		why = "hookhost did not run then, or did not look at walltime"
	}
	o.Notes = append(o.Notes, fmt.Sprintf("was ended %.1f seconds later than was due, because %s", late.Seconds(), why))
}

// warn orders the warnings that are due. Several of them share one line.
func (s *progress) warn(l limits, f facts, o *orders) {
	due := func(w config.Warning) time.Duration { return l.Walltime - w.Before }
	var last *config.Warning
	for ; s.Warned < len(l.Warnings) && f.Elapsed >= due(l.Warnings[s.Warned]); s.Warned++ {
		last = &l.Warnings[s.Warned]
		if last.Signal != 0 {
			o.Signals = append(o.Signals, *last)
		}
	}
	if last == nil {
		return
	}
	left := max(l.Walltime-f.Elapsed, 0)
	if f.Elapsed-due(*last) < muchLate { // if it has to be repeated, it has the same text
		left = last.Before
	}
	o.Lines = append(o.Lines, fmt.Sprintf("=>> PBS: walltime: %s left of %s", pbs.FormatDuration(left),
		pbs.FormatDuration(l.Walltime)))
}

// kill handles a job whose grace period has ended.
func (p *policy) kill(s *progress, f facts, o *orders) {
	grace := time.Duration(p.Walltime.CoreDumpGrace)
	if f.Dumping > 0 && s.Killing == 0 {
		first := s.Spared == 0
		if first {
			s.Spared = f.Elapsed
		}
		if end := s.Spared + grace; f.Elapsed < end {
			s.Stage, s.Next = killing, min(f.Elapsed+lookDump, end)
			o.Do = killOthers
			if first {
				o.Notes = append(o.Notes, fmt.Sprintf("SIGKILL waits %v at most for %d of its processes to write a "+
					"core dump", grace, f.Dumping))
			}
			return
		}
	}
	if s.Killing == 0 {
		s.Killing = f.Elapsed
		o.Notes = append(o.Notes, fmt.Sprintf("ended by hookhost: %s: SIGKILL after a grace of %v", s.Reason, f.Grace))
	}
	o.Do = kill
	s.Tries++
	timeout := s.Killing + time.Duration(p.Walltime.KillTimeout)
	if f.Elapsed >= timeout {
		o.GiveUp = s.Stage != unkillable
		s.Stage, s.Next = unkillable, f.Elapsed+lookAgain
		return
	}
	s.Stage = killing
	pause := min(time.Second<<min(s.Tries-1, 16), lookAgain) // 1, 2, 4, 8 s ...
	s.Next = min(f.Elapsed+pause, timeout)
}
