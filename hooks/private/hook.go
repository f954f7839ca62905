package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// hook handles the events. A restart of the program loses nothing: mounts show which jobs have a
// TMPDIR, and files show whose leftovers are to be removed.
type hook struct {
	policy *policy
	run    string // for files that do not outlive the boot; "" if the host is older than this program
	tmp    tmpDirs
	xdg    *runtimeDirs
	users  *users
	live   *liveJobs
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
	c := &cleaner{dirs: p.Private.CleanDirs, ipc: p.Private.CleanIPC, procfs: roots.Proc, log: s.Log}
	live := newLiveJobs()
	return &hook{policy: p, run: run, live: live, tree: tree, procfs: roots.Proc, log: s.Log,
		tmp:   tmpDirs{base: filepath.Join(run, "tmp"), size: p.Private.TMPSize},
		xdg:   newRuntimeDirs(run, live, tree),
		users: newUsers(filepath.Join(run, "users"), live, c.clean, s.Log)}, nil
}

// placed fails if the host did not say where directories of jobs are.
func (h *hook) placed() error {
	if h.run == "" {
		return hostapi.Errorf(hostapi.KindNode, "the daemon is older than hook private: restart it")
	}
	return nil
}

// ExecjobBegin mounts the job's TMPDIR and its owner's XDG_RUNTIME_DIR. It ends a removal of its
// owner's leftovers, since the job may use what earlier ones left.
func (h *hook) ExecjobBegin(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if err := h.placed(); err != nil {
		return nil, err
	}
	h.live.add(req.Job)
	out, err := h.begin(ctx, req.Job)
	if err != nil {
		h.live.remove(req.Job.ID)
		return nil, hostapi.Errorf(hostapi.KindNode, "job %s: %w", req.Job.ID, err)
	}
	return out, nil
}

func (h *hook) begin(ctx context.Context, job *hostapi.Job) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{}
	if h.policy.Private.Cleans() {
		if err := h.users.begin(ctx, job.Owner.UID); err != nil {
			return nil, err
		}
	}
	if h.policy.Private.TMP {
		if err := h.tmp.create(ctx, job.ID, job.Owner); err != nil {
			return nil, fmt.Errorf("TMPDIR: %w", err)
		}
		out.AttachEnv = h.tmp.variables(job.ID)
	}
	if h.policy.Private.RuntimeDir {
		if err := h.xdg.create(ctx, job.Owner); err != nil {
			return nil, fmt.Errorf("XDG_RUNTIME_DIR: %w", errors.Join(err, h.tmp.remove(ctx, job.ID)))
		}
		out.AttachEnv = both(out.AttachEnv, h.xdg.variables(job.Owner))
	}
	return out, nil
}

// ExecjobLaunch names the job's directories to the program. A job that began without them has what
// pbs_mom gives it. A session bus that the environment names belongs to another host, or to
// systemd-logind, whose bus starts programs outside of the job.
func (h *hook) ExecjobLaunch(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{}
	there, err := h.tmp.check(req.Job.ID, h.procfs, req.PID)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "TMPDIR of job %s: %w", req.Job.ID, err)
	}
	if there {
		out.SetEnv = h.tmp.variables(req.Job.ID)
	}
	there, err = h.xdg.check(req.Job.Owner, h.procfs, req.PID)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "XDG_RUNTIME_DIR of job %s: %w", req.Job.ID, err)
	}
	if there {
		out.SetEnv = both(out.SetEnv, h.xdg.variables(req.Job.Owner))
		out.UnsetEnv = []string{"DBUS_SESSION_BUS_ADDRESS"}
	}
	return out, nil
}

// both returns the variables of two environments.
func both(a, b map[string]string) map[string]string {
	env := map[string]string{}
	maps.Copy(env, a)
	maps.Copy(env, b)
	return env
}

// ExecjobEnd removes the job's TMPDIR, and its owner's leftovers and XDG_RUNTIME_DIR if it was
// their last job here. Hook cgroup has already ended the job's processes.
func (h *hook) ExecjobEnd(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	uid, lived := h.live.remove(req.Job.ID)
	if err := h.tmp.remove(ctx, req.Job.ID); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "end job %s: TMPDIR: %w", req.Job.ID, err)
	}
	if lived && h.policy.Private.Cleans() {
		h.users.end(ctx, uid)
	}
	if err := h.xdg.removeUnused(ctx); err != nil {
		h.log.Warnf("XDG_RUNTIME_DIRs of users without jobs: %v", err)
	}
	return &hostapi.Outcome{}, nil
}

// ExecjobAbort undoes begin.
func (h *hook) ExecjobAbort(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.ExecjobEnd(ctx, req)
}

// ExechostStartup finds the jobs that live and removes what others left.
func (h *hook) ExechostStartup(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if err := h.placed(); err != nil {
		return nil, err
	}
	h.live.replace(req.JobList)
	if h.policy.Private.Cleans() {
		for id, job := range req.JobList {
			if err := h.users.begin(ctx, job.Owner.UID); err != nil {
				h.log.WithField("job", id).Warn(err)
			}
		}
	} else if err := h.users.forgetAll(); err != nil {
		h.log.Warn(err)
	}
	return h.tidy(ctx, req)
}

// ExechostPeriodic removes what earlier events could not.
func (h *hook) ExechostPeriodic(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if req.Partial {
		return &hostapi.Outcome{}, nil
	}
	h.live.replace(req.JobList)
	return h.tidy(ctx, req)
}

// tidy removes directories of jobs that are over, and begins to remove leftovers. What it cannot
// remove affects no job, so that is only logged. It returns the variables of attached processes.
func (h *hook) tidy(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if h.policy.Private.Cleans() {
		if err := h.users.cleanAll(); err != nil {
			h.log.Warn(err)
		}
	}
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{}}
	errs := []error{h.xdg.removeUnused(ctx)}
	for id, job := range req.JobList {
		if env := h.xdg.variables(job.Owner); env != nil {
			out.Jobs[id] = &hostapi.JobUpdate{AttachEnv: env}
		}
	}
	ids, err := h.tmp.list()
	errs = append(errs, err)
	for _, id := range ids {
		if job, listed := req.JobList[id]; listed {
			out.Jobs[id] = &hostapi.JobUpdate{AttachEnv: both(h.tmp.variables(id), h.xdg.variables(job.Owner))}
		} else if !h.lives(id) {
			errs = append(errs, h.tmp.remove(ctx, id))
		}
	}
	if err := errors.Join(errs...); err != nil {
		h.log.Warnf("directories of jobs that are over: %v", err)
	}
	return out, nil
}

// lives reports whether a job may live. If the host has lost its record, it still has a cgroup.
func (h *hook) lives(id string) bool {
	if h.live.has(id) {
		return true
	}
	j, err := h.tree.Job(id)
	return err == nil && j.Exists()
}
