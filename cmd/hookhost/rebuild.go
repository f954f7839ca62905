package main

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// traces are what jobs have in the kernel.
type traces struct {
	tree   *cgroup.Tree
	self   hostapi.ProcessID
	procfs *kernfs.FS
}

// rebuild makes records for jobs that have a cgroup but no record, as after the state was damaged or deleted. The
// cgroup says what job it is; its usage is in the kernel's counters. Without this, such a job would run on with
// nobody to end it. It also brings the records of jobs whose host has died in line with the cgroup, where that knows better.
func (t traces) rebuild(store *jobstate.Store, log *logrus.Entry) error {
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
		errs = append(errs, store.Update(id, func(have *jobstate.Record) (*jobstate.Record, error) {
			if have != nil {
				if have.Host != t.self && t.realign(have, clock.Now()) {
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

// recordOf makes the record of one job anew. It is nil for a job that has no cgroup which says that it runs.
func (t traces) recordOf(id string) (*jobstate.Record, error) {
	job, err := t.tree.Job(id)
	if err != nil {
		return nil, err
	}
	found, err := job.Record()
	if err != nil || found.Ending {
		return nil, nil // no job's: the cgroup hook sweeps it
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
