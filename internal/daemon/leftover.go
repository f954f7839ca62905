package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/hookhost/hookhost/internal/mom"
)

// removeLeft removes the node files and TMPDIRs of jobs whose `run` was killed. The node files say
// which jobs these are: only `run` makes any here, after the job's record and before its program.
//
// A job without a record may still live, if the record was lost. Such a job has a cgroup, and its
// files stay.
func (d *daemon) removeLeft() error {
	aux := d.conf.paths.Aux()
	files, err := os.ReadDir(aux)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, f := range files {
		job, err := d.jobs.tree.Job(f.Name())
		if err != nil {
			continue // not a job's
		}
		rec := d.jobs.store.Get(f.Name())
		if rec == nil && !job.Exists() || rec != nil && rec.MoM != nil && !d.processes.Alive(*rec.MoM) {
			err = mom.RemoveDirs(f.Name(), aux, mom.TmpDir)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove files of dead jobs: %w", err)
	}
	return nil
}
