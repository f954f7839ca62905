package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/nodestate"
)

// traces are what jobs have in the kernel, as far as they are this host's.
type traces struct {
	tree    *cgroup.Tree
	state   nodestate.Dir   // where this host has its records
	records *jobstate.Store // those, for RemoveJob
	self    hostapi.ProcessID
	alive   func(hostapi.ProcessID) bool
	procfs  *kernfs.FS
}

// whose returns the host that answers for the job, zero where none lives. apart is an error for a job that is recorded in another state
// directory: whatever has become of its host, it is not this one's, unless that is gone and this one has a record of the same run. have
// is this host's record, nil for none, and found the cgroup's.
func (t traces) whose(job *cgroup.Job, have *jobstate.Record, found cgroup.Record) (by hostapi.ProcessID, apart error) {
	m, err := job.Maker()
	if err != nil {
		return by, nil
	}
	lives := t.alive(m.Host)
	if lives {
		by = m.Host
	}
	if lives && m.State.Dir != "" && m.State.Dir != string(t.state) || m.State.Apart(t.state) && !sameRun(have, found) {
		apart = fmt.Errorf("job %s: its cgroup says that its record is in %s, and this host has its records in %s", job.ID(), m.State.Dir, t.state)
	}
	return by, apart
}

// nobody is the host that answers for what no host answers for.
var nobody hostapi.ProcessID

// sameRun tells whether a record and a cgroup come from one begin, as the cgroup hook does (recorded, in hooks/cgroup/maker.go).
func sameRun(have *jobstate.Record, found cgroup.Record) bool {
	if have == nil {
		return false
	}
	here, _ := countedIn(have.HookState["cgroup"])
	there, _ := countedIn(found.State)
	return here.Begun != 0 && here.Begun == there.Begun
}

// rebuild makes records for jobs that have a cgroup but no record, as after the state was damaged or deleted. The
// cgroup says what job it is; its usage is in the kernel's counters. Without this, such a job would run on with
// nobody to end it. It also brings the records of jobs whose host has died in line with the cgroup, where that knows better.
func (t traces) rebuild(ctx context.Context, store *jobstate.Store, log *logrus.Entry) error {
	ids, err := t.tree.JobIDs()
	if err != nil {
		return err
	}
	clock, err := jobstate.NewClock(t.self.BootID)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, store.Update(ctx, id, func(have *jobstate.Record) (*jobstate.Record, error) {
			if have != nil {
				if have.Host != t.self && !t.alive(have.Host) && t.realign(have, clock.Now()) {
					log.WithField("job", id).Warnf("its host died over an event: the job's cgroup says that it is %s", have.Phase)
				}
				return have, nil
			}
			// Looked at only now: a job that has ended since lost its record after its cgroup.
			made, err := t.recordOf(id)
			if made != nil {
				log.WithField("job", id).Warn("made the job's record anew from its cgroup")
			}
			return made, err
		}))
	}
	return errors.Join(errs...)
}

// recordOf makes the record of one job anew. It is nil for a job that has no cgroup which says that it runs, for
// one that another living host answers for, and for one that is recorded elsewhere.
func (t traces) recordOf(id string) (*jobstate.Record, error) {
	job, err := t.tree.Job(id)
	if err != nil {
		return nil, err
	}
	found, err := job.Record()
	if err != nil || found.Ending {
		return nil, nil // no job's: the cgroup hook sweeps it
	}
	if by, apart := t.whose(job, nil, found); by != nobody && by != t.self || apart != nil {
		return nil, nil
	}
	clock, err := jobstate.NewClock(t.self.BootID)
	if err != nil {
		return nil, err
	}
	return recordFrom(found, t.self, clock.Now()), nil
}

// realign makes the record of a job whose host has died say what its cgroup says: whether the job is suspended. MoM has
// suspended or resumed the job whatever became of the event, and the hook notes in the cgroup what it is about to do
// before it does it (hooks/cgroup/suspend.go), so that of the two the cgroup is right. It tells whether it changed anything.
func (t traces) realign(rec *jobstate.Record, now jobstate.Moment) bool {
	job, err := t.tree.Job(rec.Job.ID)
	if err != nil {
		return false
	}
	found, err := job.Record()
	if err != nil {
		return false
	}
	if by, apart := t.whose(job, rec, found); by != nobody || apart != nil {
		return false // that host's hook is in the middle of something, or the two are not of one run
	}
	return follow(rec, found, now)
}

// counted is the part of the cgroup hook's state that the host counts as well, in microseconds; moments are of the clock that
// Moment.Mono is of.
type counted struct {
	Begun    int64 `json:"begun_us"`        // 0 when another hook has begun the job
	Launched int64 `json:"launched_us"`     // 0 when the hook has not told yet
	At       int64 `json:"suspended_at_us"` // 0 when the job is not suspended
	Total    int64 `json:"suspended_us"`    // of the suspensions that are over
}

// countedIn returns what the hook had counted when it wrote that state; false when that cannot be known.
func countedIn(state json.RawMessage) (counted, bool) {
	var s counted
	if len(state) == 0 || json.Unmarshal(state, &s) != nil {
		return counted{}, false
	}
	return s, true
}

// before returns the moment that the hook has noted; now where it has noted none that can be.
func before(now jobstate.Moment, micros int64) jobstate.Moment {
	if ago := now.Mono - time.Duration(micros)*time.Microsecond; micros > 0 && ago > 0 {
		return now.Add(-ago)
	}
	return now
}

// follow is realign's decision. A job that has not started, or is ending, is in neither phase.
func follow(rec *jobstate.Record, found cgroup.Record, now jobstate.Moment) bool {
	running := rec.Phase == jobstate.PhaseRunning
	if found.Ending || found.Begin.Job.RunCount != rec.Job.RunCount || found.Suspended != running || !running && rec.Phase != jobstate.PhaseSuspended {
		return false
	}
	s, told := countedIn(found.State)
	if told {
		if rec.HookState == nil {
			rec.HookState = map[string]json.RawMessage{}
		}
		rec.HookState["cgroup"] = found.State
	}
	if found.Suspended {
		rec.Phase, rec.SuspendedAt = jobstate.PhaseSuspended, before(now, s.At)
		return true
	}
	stood := max(now.Sub(rec.SuspendedAt), 0)
	if total := time.Duration(s.Total)*time.Microsecond - rec.Suspended; told && total > 0 {
		stood = min(stood, total) // it went on before now
	}
	rec.Phase, rec.Suspended, rec.SuspendedAt = jobstate.PhaseRunning, rec.Suspended+stood, jobstate.Moment{}
	return true
}

// recordFrom makes the record of a job that runs. When it began is often not known any more than that it was before now.
func recordFrom(found cgroup.Record, self hostapi.ProcessID, now jobstate.Moment) *jobstate.Record {
	s, _ := countedIn(found.State)
	rec := &jobstate.Record{
		Job: found.Begin.Job, Phase: jobstate.PhaseRunning, MoM: found.Begin.MoM, Host: self, Run: found.Begin.Run, Head: found.Begin.Head,
		Begun: now.Wall, Launched: before(now, s.Launched),
		HookState: map[string]json.RawMessage{"cgroup": found.State},
		Notes:     []string{"the record of this job was lost and made anew from its cgroup: its start is when that was"},
	}
	if s.Launched > 0 {
		rec.Begun, rec.Suspended = rec.Launched.Wall, time.Duration(s.Total)*time.Microsecond
	} else {
		s.At = 0 // it has run since now, and was not stopped before
	}
	if found.Suspended {
		rec.Phase, rec.SuspendedAt = jobstate.PhaseSuspended, before(now, s.At)
	}
	return rec
}
