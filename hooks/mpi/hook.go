package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/stray"
)

// hook handles the events. It stores the jobs' host files in aux. Everything it remembers about
// their processes can be found again.
type hook struct {
	policy *policy
	aux    string // directory of host files
	remsh  string // path of hookhost-remsh; "" if it is not installed or is disabled
	log    *logrus.Entry
	strays *strays // nil if the kernel's files could not be opened
	ranks  *ranks  // likewise, and nil if hook cgroup reports ranks (mpi.per_task)
}

// newHook creates the hook.
func newHook(s *hostapi.Setup) (any, error) {
	p, err := newPolicy(s.Config)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	h := &hook{policy: p, aux: s.Host["aux_dir"], remsh: s.Host["remsh"], log: s.Log}
	if !p.MPI.Remsh {
		h.remsh = ""
	}
	if err := h.openKernel(s.Host["remsh"]); err != nil { // the remote shell still works
		h.log.Errorf("neither strays nor ranks are looked for: %v", err)
	}
	return h, nil
}

// openKernel opens the kernel's files, for strays and ranks. remsh is the path of hookhost-remsh,
// even if launchers are not told to use it.
func (h *hook) openKernel(remsh string) error {
	roots, tree, err := cgroup.Open(cgroup.Options{Prefix: h.policy.Cgroup.Prefix, Mount: h.policy.Cgroup.Mount})
	if err != nil {
		return err
	}
	list := func(of func(*cgroup.Job) ([]int, error)) func(id string) ([]int, error) {
		return func(id string) ([]int, error) {
			j, err := tree.Job(id)
			if err != nil {
				return nil, err
			}
			return of(j)
		}
	}
	environs := proc.NewEnvirons(roots.Proc)
	facts := &stray.Reader{Procfs: roots.Proc, JobOf: tree.JobOf, Environ: environs.Read,
		Hookhost: programsOfHookhost(roots.Proc, remsh), Qsub: h.policy.qsub()}
	h.strays = newStrays(h.policy.MPI.Strays, facts, list((*cgroup.Job).Processes), h.log)
	if !h.policy.MPI.PerTask { // with per_task, hook cgroup reports them
		h.ranks = newRanks(roots.Proc, list((*cgroup.Job).Entered), environs)
	}
	return nil
}

// programsOfHookhost returns the programs that users run: the host's own and those in the same
// directory.
func programsOfHookhost(procfs *kernfs.FS, remsh string) (files []kernfs.FileID) {
	if id, err := procfs.Executable(os.Getppid()); err == nil {
		files = append(files, id)
	}
	if remsh == "" {
		return files
	}
	for _, path := range []string{remsh, filepath.Join(filepath.Dir(remsh), "hookhost")} {
		if id, err := kernfs.FileOf(path); err == nil {
			files = append(files, id)
		}
	}
	return files
}

// ExechostStartup removes the host files of jobs that are gone.
func (h *hook) ExechostStartup(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if h.policy.MPI.Remsh && h.remsh == "" {
		h.log.Warn("hookhost-remsh is not beside hookhost: what MPI starts on other hosts is outside of its job")
	}
	if h.aux == "" { // the host is older than this program
		return nil, hostapi.Errorf(hostapi.KindNode, "the host did not say where files for jobs are")
	}
	if err := sweep(h.aux, req.JobList, 0); err != nil { // what remains does no harm
		h.log.Warn(err)
	}
	return &hostapi.Outcome{}, nil
}
