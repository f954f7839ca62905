package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
)

// hook handles the events. A restart of the program loses nothing: mounts show which jobs have a
// TMPDIR, and files show whose leftovers are to be removed.
type hook struct {
	policy config.Private
	tmp    tmpfsDirs
	xdg    *runtimeDirs
	spaces namespaces
	users  *users
	live   *liveJobs
	tree   *cgroup.Tree
	procfs *kernfs.FS
	log    *logrus.Entry
}

// newHook creates the hook. With an empty [private] it only removes what it created before.
func newHook(s *hostapi.Setup) (any, error) {
	cfg, err := config.FromJSON(s.Config)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	roots, tree, err := cgroup.Open(cgroup.Options{Prefix: cfg.Cgroup.Prefix, Mount: cfg.Cgroup.Mount})
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	p, run := cfg.Private, s.Host["run_dir"]
	c := &cleaner{dirs: p.CleanDirs, ipc: p.CleanIPC, procfs: roots.Proc, log: s.Log}
	live, wait := newLiveJobs(), &patience{}
	return &hook{policy: p, live: live, tree: tree, procfs: roots.Proc, log: s.Log,
		tmp: tmpfsDirs{base: filepath.Join(run, "tmp"), size: p.TMPSize},
		xdg: &runtimeDirs{live: live, tree: tree,
			dirs: tmpfsDirs{base: filepath.Join(run, "runtime"), size: runtimeSize, files: runtimeFiles}},
		spaces: namespaces{pins: filepath.Join(run, "ns"), dirs: p.Dirs, prefix: cfg.Cgroup.Prefix,
			emptying: new(sync.Map), patience: wait, log: s.Log},
		users: newUsers(filepath.Join(run, "users"), live, c.clean, wait, s.Log)}, nil
}

// ExecjobBegin mounts the job's TMPDIR and private directories, and its owner's XDG_RUNTIME_DIR. It
// ends a removal of its owner's leftovers, since the job may use what earlier ones left.
func (h *hook) ExecjobBegin(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	shm, err := h.sharedMemory(req.Job)
	if err != nil {
		return nil, err
	}
	h.live.add(req.Job)
	out, err := h.begin(ctx, req.Job, shm)
	if err != nil {
		h.live.remove(req.Job.ID)
		kind := hostapi.KindNode
		if hostapi.KindOf(err) == hostapi.KindBusy { // by users, who must not take the node offline
			kind = hostapi.KindBusy
		}
		err = errors.Join(err, h.removeDirs(ctx, req.Job.ID), h.xdg.removeUnused(ctx))
		return nil, hostapi.Errorf(kind, "job %s: %w", req.Job.ID, err)
	}
	return out, nil
}

// begin makes the job's directories. If it fails, some of them are left.
func (h *hook) begin(ctx context.Context, job *hostapi.Job, shm pbs.Size) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{}
	if h.policy.Cleans() {
		if err := h.users.begin(ctx, job.Owner.UID); err != nil {
			return nil, err
		}
	}
	if h.policy.TMP {
		if err := h.tmp.create(ctx, job.ID, job.Owner); err != nil {
			return nil, fmt.Errorf("TMPDIR: %w", err)
		}
		out.AttachEnv = map[string]string{"TMPDIR": h.tmp.path(job.ID)}
	}
	if h.policy.RuntimeDir {
		if err := h.xdg.create(ctx, job.Owner); err != nil {
			return nil, fmt.Errorf("XDG_RUNTIME_DIR: %w", err)
		}
		out.AttachEnv = both(out.AttachEnv, h.xdg.variables(job.Owner))
	}
	if err := h.spaces.create(ctx, job, shm); err != nil {
		return nil, fmt.Errorf("private directories: %w", err)
	}
	return out, nil
}

// ExecjobLaunch moves the process that becomes the program into the job's mount namespace, and
// sets its variables to the job's directories. A job that began without them has what pbs_mom gives
// it. A session bus that the environment names belongs to another host, or to systemd-logind, whose
// bus starts programs outside of the job.
func (h *hook) ExecjobLaunch(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{}
	private, err := h.spaces.join(h.procfs, req)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "private directories of job %s: %w", req.Job.ID, err)
	}
	there, err := h.tmp.check(req.Job.ID, h.procfs, req.PID)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "TMPDIR of job %s: %w", req.Job.ID, err)
	}
	if there {
		out.SetEnv = map[string]string{"TMPDIR": h.tmp.path(req.Job.ID)}
	} else if dir := h.spaces.hides(req.Env["TMPDIR"]); private && dir != "" {
		out.SetEnv = map[string]string{"TMPDIR": dir}
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

// ExecjobAttach moves the process that starts a login session into the job's mount namespace. Other
// attached processes stay outside: they run as the user, who may not enter a namespace.
func (h *hook) ExecjobAttach(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if !req.Login {
		return &hostapi.Outcome{}, nil
	}
	if _, err := h.spaces.join(h.procfs, req); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "private directories of job %s: %w", req.Job.ID, err)
	}
	return &hostapi.Outcome{}, nil
}

// both returns the variables of two environments.
func both(a, b map[string]string) map[string]string {
	env := map[string]string{}
	maps.Copy(env, a)
	maps.Copy(env, b)
	return env
}

// ExecjobEnd removes the job's TMPDIR and private directories, and its owner's leftovers and
// XDG_RUNTIME_DIR if it was their last job here. Hook cgroup has already ended the job's processes.
func (h *hook) ExecjobEnd(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	uid, lived := h.live.remove(req.Job.ID)
	if err := h.removeDirs(ctx, req.Job.ID); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "end job %s: private directories: %w", req.Job.ID, err)
	}
	if lived && h.policy.Cleans() {
		h.users.end(ctx, uid)
	}
	if err := h.xdg.removeUnused(ctx); err != nil {
		h.log.Warnf("XDG_RUNTIME_DIRs of users without jobs: %v", err)
	}
	return &hostapi.Outcome{}, nil
}

// removeDirs removes the directories of a job. The namespace goes first, because it has the TMPDIR,
// too. Idempotent.
func (h *hook) removeDirs(ctx context.Context, id string) error {
	return errors.Join(h.spaces.remove(ctx, id), h.tmp.remove(ctx, id))
}

// ExecjobAbort undoes begin.
func (h *hook) ExecjobAbort(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.ExecjobEnd(ctx, req)
}

// ExechostStartup finds the jobs that live and removes what others left.
func (h *hook) ExechostStartup(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	h.live.replace(req.JobList)
	if h.policy.Cleans() {
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
	if h.policy.Cleans() {
		if err := h.users.cleanAll(); err != nil {
			h.log.Warn(err)
		}
	}
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{}}
	errs := []error{h.xdg.removeUnused(ctx)}
	tmp, err := jobsIn(h.tmp.base)
	errs = append(errs, err)
	for id, job := range req.JobList {
		env := h.xdg.variables(job.Owner)
		if slices.Contains(tmp, id) {
			env = both(env, map[string]string{"TMPDIR": h.tmp.path(id)})
		}
		if env != nil {
			out.Jobs[id] = &hostapi.JobUpdate{AttachEnv: env}
		}
	}
	private, err := h.spaces.list()
	errs = append(errs, err)
	for _, id := range slices.Concat(private, tmp) {
		if _, listed := req.JobList[id]; !listed && !h.lives(id) {
			errs = append(errs, h.removeDirs(ctx, id))
		}
	}
	h.spaces.emptyAll()
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
