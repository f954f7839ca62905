package main

import (
	"fmt"
	"time"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pbs"
)

// stage is how far the end of a job has come. There is no way back to running: a job that has got
// its SIGTERM is over, whatever becomes of its limit.
type stage string

const (
	running    stage = ""
	terminated stage = "terminated" // it has got SIGTERM, or nothing is left after SIGKILL
	killing    stage = "killing"    // it gets SIGKILL, again and again
	unkillable stage = "unkillable" // and still does
)

// progress is where a job is. Times are of the job's clock.
type progress struct {
	Stage    stage `json:"stage,omitempty"`
	Warned   int   `json:"warned,omitempty"`    // how many of its warnings are over
	SoftTold bool  `json:"soft_told,omitempty"` // that it exceeded soft_walltime
	Hastened bool  `json:"hastened,omitempty"`  // it has the cpu time to die of pbs_mom's signals

	Reason     string        `json:"reason,omitempty"`     // what it is ended for: "walltime 3 exceeded limit 3"
	Terminated time.Duration `json:"terminated,omitempty"` // when it got SIGTERM
	Spared     time.Duration `json:"spared,omitempty"`     // when SIGKILL was due and a process dumped core
	Killing    time.Duration `json:"killing,omitempty"`    // when all got SIGKILL first
	Tries      int           `json:"tries,omitempty"`      // of SIGKILL to all

	Next time.Duration `json:"next,omitempty"` // nothing is due before; 0 never
}

// facts are what a job looks like at one moment.
type facts struct {
	Elapsed   time.Duration  // how long it has run
	Grace     time.Duration  // from SIGTERM to SIGKILL; of a running job only where it is over a limit
	CPU       *time.Duration // cpu time that it has used; nil when that is not known
	Uncounted bool           // nobody counts that on this node
	CPUs      int            // that it can run on
	Alive     int            // processes; of a running job only where it is over a limit, and perhaps 1 for any
	Dumping   int            // of them: writing a core dump
	Suspended bool
	Up        time.Duration // how long this program has been there to see it
	PIDs      []int         // that a running job over a limit had; nil when that was not asked
}

// orders are what is to be done now, in the order of the fields.
type orders struct {
	Hasten  bool             // cgroup.Job.Hasten
	Signals []config.Warning // to send
	Do      deed
	GiveUp  bool // tell what processes are left

	Lines []string // for the job's standard error
	Diag  string
	Notes []string
}

// deed is what is done to the whole job.
type deed int

const (
	nothing deed = iota
	terminate
	killOthers // all but those that dump core and the leading program
	kill
)

const (
	lookDump  = time.Second      // between looks at a core dump
	lookAgain = time.Minute      // between looks at a job that is over and still there
	blindLook = 10 * time.Second // when what cpu time a job has used could not be read
	muchLate  = time.Second      // from where on lateness is told
)

// step decides what is due of a job. step is pure: the same facts give the same answer.
func (p *policy) step(l limits, was progress, f facts) (progress, orders) {
	if was.Next == 0 || f.Elapsed < was.Next {
		return was, orders{}
	}
	s, o := was, orders{}
	if f.Suspended { // since its time was over
		s.Next = f.Elapsed + lookDump
		return s, o
	}
	switch {
	case s.Stage == running:
		p.run(l, &s, f, &o)
	case f.Alive == 0:
		// A process that turns up later, on a sister host, is ended then.
		s.Stage, s.Spared, s.Killing, s.Tries = terminated, 0, 0, 0
		s.Next = f.Elapsed + lookAgain
	case s.Stage == terminated && f.Elapsed < s.Terminated+f.Grace:
		s.Next = s.Terminated + f.Grace
	default:
		p.kill(&s, f, &o)
	}
	return s, o
}

// run is the stage of a job that nobody has ended yet.
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
	if l.MoM > 0 && !s.Hastened && f.Elapsed >= l.MoM { // MoM sends SIGTERM and SIGKILL, and asks no hook
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

// exceeded returns what limit the job is over, in the words of pbs_mom (openpbs
// src/resmom/mom_mach.c, mom_over_limit); "" for none.
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

// late returns how long ago a job that is over a limit was to be ended. The cput beyond the limit
// was used by all cpus at once, or over a longer time.
func (l limits) late(s progress, f facts) time.Duration {
	if l.End > 0 && f.Elapsed >= l.End {
		return f.Elapsed - max(s.Next, l.End)
	}
	return (*f.CPU - l.CPUT) / time.Duration(max(f.CPUs, 1))
}

// end has the job get its SIGTERM, so much later than was due.
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

// warn has the job get the warnings that are due. Several warnings have one line.
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
	if f.Elapsed-due(*last) < muchLate { // the same text when it has to be said again
		left = last.Before
	}
	o.Lines = append(o.Lines, fmt.Sprintf("=>> PBS: walltime: %s left of %s", pbs.FormatDuration(left),
		pbs.FormatDuration(l.Walltime)))
}

// kill is the stage of a job that has had its grace.
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
