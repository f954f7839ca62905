package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/mom"
)

// tmpDir is where `run` makes jobs' TMPDIR, as pbs_mom does.
const tmpDir = "/var/tmp"

// removeLeft removes the node files and TMPDIRs of jobs whose `run` was killed. The node files tell which those are: only
// `run` makes any here, after the job's record and before its program.
//
// A job without a record may still live, if the record was lost: then it has a cgroup, and keeps its files.
func removeLeft(auxDir string, tree *cgroup.Tree, store *jobstate.Store, alive func(hostapi.ProcessID) bool) error {
	files, err := os.ReadDir(auxDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, f := range files {
		job, err := tree.Job(f.Name())
		if err != nil {
			continue // not a job's
		}
		rec := store.Get(f.Name())
		if rec == nil && !job.Exists() || rec != nil && rec.MoM != nil && !alive(*rec.MoM) {
			err = mom.RemoveDirs(f.Name(), auxDir, tmpDir)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
