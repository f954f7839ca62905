package main

import (
	"path/filepath"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// configuredHome is the configured home of pbs_mom as the kernel would name it, "" for none.
func (b *backend) configuredHome() string {
	home, err := b.openPBS.Load().MoMHome()
	if err != nil {
		return ""
	}
	if own, err := filepath.EvalSymlinks(home); err == nil {
		return own
	}
	return home
}

// populated tells whether there are processes in a job's cgroup, whoever has made that.
func (b *backend) populated(id string) (bool, error) {
	job, err := b.tree.Job(id)
	if err != nil {
		return false, err
	}
	return job.Populated()
}

// pbsHas tells whether the pbs_mom of a home has a job; "" is the configured home.
func (b *backend) pbsHas(job *hostapi.Job, home string) (bool, error) {
	if home == "" {
		var err error
		if home, err = b.openPBS.Load().MoMHome(); err != nil {
			return false, err
		}
	}
	if err := hostapi.CheckJobID(job.ID); err != nil {
		return false, err
	}
	return pbs.MoMHasJob(home, job.ID)
}
