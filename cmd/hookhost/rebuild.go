package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// rebuild makes records for jobs that have a cgroup but no record, as after the state was damaged or deleted. The
// cgroup says what job it is; its usage is in the kernel's counters. Without this, such a job would run on with
// nobody to end it.
func rebuild(ctx context.Context, tree *cgroup.Tree, store *jobstate.Store, self hostapi.ProcessID, alive func(hostapi.ProcessID) bool, log *logrus.Entry) error {
	ids, err := tree.JobIDs()
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, store.Update(ctx, id, func(have *jobstate.Record) (*jobstate.Record, error) {
			if have != nil {
				return have, nil
			}
			// Looked at only now: a job that has ended since lost its record after its cgroup.
			made, err := recoverJob(tree, id, self, alive)
			if made != nil {
				log.WithField("job", id).Warn("made the job's record anew from its cgroup")
			}
			return made, err
		}))
	}
	return errors.Join(errs...)
}

// recoverJob makes the record of one job anew. It is nil for a job that has no cgroup which says that it runs, and for
// one that another living host answers for: that keeps its records elsewhere.
func recoverJob(tree *cgroup.Tree, id string, self hostapi.ProcessID, alive func(hostapi.ProcessID) bool) (*jobstate.Record, error) {
	job, err := tree.Job(id)
	if err != nil {
		return nil, err
	}
	found, err := job.Record()
	if err != nil || found.Ending {
		return nil, nil // no job's: the cgroup hook sweeps it
	}
	if m, err := job.Maker(); err == nil && m.Host != self && alive(m.Host) {
		return nil, nil
	}
	return recordFrom(found, self, time.Now()), nil
}

// recordFrom makes the record of a job that runs. When it began is not known any more than that it was before now.
func recordFrom(found cgroup.Record, self hostapi.ProcessID, now time.Time) *jobstate.Record {
	return &jobstate.Record{
		Job: found.Begin.Job, Phase: jobstate.PhaseRunning, MoM: found.Begin.MoM, Host: self, Begun: now, Launched: now,
		HookState: map[string]json.RawMessage{"cgroup": found.State},
		Notes:     []string{"the record of this job was lost and made anew from its cgroup: its start is when that was"},
	}
}
