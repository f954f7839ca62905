package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// hook handles the events. A restart of the program loses nothing: mounts show which jobs have a
// TMPDIR.
type hook struct {
	policy *policy
	run    string // for files that do not outlive the boot; "" if the host is older than this program
	tmp    tmpDirs
	tree   *cgroup.Tree
	procfs *kernfs.FS
	log    *logrus.Entry
}

// newHook creates the hook. With an empty [private] it only removes what it created before.
func newHook(s *hostapi.Setup) (any, error) {
	p, err := newPolicy(s.Config)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	roots, err := kernfs.OpenRoots()
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "open kernel files: %w", err)
	}
	tree, err := cgroup.Detect(roots, cgroup.Options{Prefix: p.Cgroup.Prefix, Mount: p.Cgroup.Mount})
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	run := s.Host["run_dir"]
	return &hook{policy: p, run: run, tree: tree, procfs: roots.Proc, log: s.Log,
		tmp: tmpDirs{base: filepath.Join(run, "tmp"), size: p.Private.TMPSize}}, nil
}

// placed fails if the host did not say where directories of jobs are.
func (h *hook) placed() error {
	if h.run == "" {
		return hostapi.Errorf(hostapi.KindNode, "the daemon is older than hook private: restart it")
	}
	return nil
}

// ExecjobBegin mounts the job's TMPDIR.
func (h *hook) ExecjobBegin(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	job := req.Job
	out := &hostapi.Outcome{}
	if err := h.placed(); err != nil {
		return nil, err
	}
	if h.policy.Private.TMP {
		if err := h.tmp.create(ctx, job.ID, job.Owner); err != nil {
			return nil, hostapi.Errorf(hostapi.KindNode, "TMPDIR of job %s: %w", job.ID, err)
		}
		out.AttachEnv = h.tmp.variables(job.ID)
	}
	return out, nil
}

// ExecjobLaunch names the job's TMPDIR to the program. A job that began without one has pbs_mom's.
func (h *hook) ExecjobLaunch(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	there, err := h.tmp.check(req.Job.ID, h.procfs, req.PID)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "TMPDIR of job %s: %w", req.Job.ID, err)
	}
	if !there {
		return &hostapi.Outcome{}, nil
	}
	return &hostapi.Outcome{SetEnv: h.tmp.variables(req.Job.ID)}, nil
}

// ExecjobEnd removes the job's TMPDIR. Hook cgroup has already ended the job's processes.
func (h *hook) ExecjobEnd(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if err := h.tmp.remove(ctx, req.Job.ID); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "end job %s: TMPDIR: %w", req.Job.ID, err)
	}
	return &hostapi.Outcome{}, nil
}

// ExecjobAbort undoes begin.
func (h *hook) ExecjobAbort(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.ExecjobEnd(ctx, req)
}

// ExechostStartup removes what jobs left that are over.
func (h *hook) ExechostStartup(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if err := h.placed(); err != nil {
		return nil, err
	}
	return h.tidy(ctx, req)
}

// ExechostPeriodic removes what earlier events could not.
func (h *hook) ExechostPeriodic(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if req.Partial {
		return &hostapi.Outcome{}, nil
	}
	return h.tidy(ctx, req)
}

// tidy removes TMPDIRs of jobs that are over. What it cannot remove affects no job, so that is only
// logged. It returns the variables of attached processes.
func (h *hook) tidy(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{}}
	ids, err := h.tmp.list()
	errs := []error{err}
	for _, id := range ids {
		if _, listed := req.JobList[id]; listed {
			out.Jobs[id] = &hostapi.JobUpdate{AttachEnv: h.tmp.variables(id)}
		} else if !h.lives(id) {
			errs = append(errs, h.tmp.remove(ctx, id))
		}
	}
	if err := errors.Join(errs...); err != nil {
		h.log.Warnf("TMPDIRs of jobs that are over: %v", err)
	}
	return out, nil
}

// lives reports whether a job that is not listed may live. It may have begun since the list was
// made, or the host may have lost its record. Such a job has a cgroup.
func (h *hook) lives(id string) bool {
	j, err := h.tree.Job(id)
	return err == nil && j.Exists()
}
