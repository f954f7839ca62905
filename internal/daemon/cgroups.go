package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/systemd"
)

// cgroups accesses the cgroups of jobs.
type cgroups struct {
	tree *cgroup.Tree
}

// detect opens the cgroup tree in the same way as the cgroup hook (hooks/cgroup/parent.go), which
// prepares it.
func detect(cfg *config.File) (*cgroup.Tree, error) {
	s := systemd.New(systemd.Run, time.Duration(cfg.Cgroup.SystemdWait))
	delegated, err := s.Wanted(cfg.Cgroup.Systemd)
	if err != nil {
		return nil, err
	}
	opt := cgroup.Options{
		Prefix: cfg.Cgroup.Prefix, Mount: cfg.Cgroup.Mount, Delegated: delegated,
		Enable: cfg.Cgroup.EnableControllers, Controllers: cfg.Placing(),
	}
	if !s.Running() {
		opt.EnableIfThere = cfg.Controllers()
	}
	_, tree, err := cgroup.Open(opt)
	return tree, err
}

// RemoveJob removes a job's cgroup if the cgroup hook is not there to do so, or refuses to.
func (c cgroups) RemoveJob(ctx context.Context, id string) error {
	job, err := c.tree.Job(id)
	if err != nil {
		return err
	}
	_, err = job.Kill(ctx)
	if err := errors.Join(err, job.Remove(ctx)); err != nil {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	return nil
}

// populated reports whether a job's cgroup has processes, no matter who made the cgroup.
func (c cgroups) populated(id string) (bool, error) {
	job, err := c.tree.Job(id)
	if err != nil {
		return false, err
	}
	return job.Populated()
}
