package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/systemd"
)

// fakeUnits plays systemd: it starts the unit in the fake kernel's tree, and remembers the
// requests.
type fakeUnits struct {
	k      *kernfstest.Kernel
	pass   []string
	err    error
	active bool
	calls  []string
}

func (u *fakeUnits) Active(string) bool { return u.active }

func (u *fakeUnits) Ensure(_ context.Context, unit string) error {
	u.calls = append(u.calls, unit)
	switch {
	case u.err == nil && u.active && !u.k.Roots().Cgroup.Exists(unit):
		return errors.New(`its cgroup is ""`)
	case u.err != nil || u.active:
		return u.err
	}
	u.active = true
	root := u.k.Roots().Cgroup
	for _, c := range u.pass {
		if err := root.Write("cgroup.subtree_control", "+"+c); err != nil {
			return err
		}
	}
	return root.Mkdir(unit)
}

func (u *fakeUnits) Realize(_ context.Context, unit string) error {
	return u.k.Roots().Cgroup.Mkdir(unit)
}

// underSystemd is a v2 node where systemd creates the units.
func underSystemd(t *testing.T, edit func(*config.File), pass ...string) (*hook, *fakeUnits) {
	t.Helper()
	k := kernfstest.NewV2()
	u := &fakeUnits{k: k, pass: pass}
	log := logrus.New()
	log.SetOutput(t.Output())
	h, err := open(
		testPolicy(t, edit),
		k.Roots(),
		cgroup.Options{Signal: k.Signal, Delegated: true},
		logrus.NewEntry(log),
	)
	must.NoError(t, err)
	h.units = u
	return h, u
}

// A hook opens on a node where the unit was never started, and has it started exactly once.
func TestStartParent(t *testing.T) {
	h, u := underSystemd(t, nil, "cpuset", "cpu", "memory", "pids")
	must.NoError(t, h.startParent(t.Context()))
	for range 3 {
		must.NoError(t, h.ensureParent(t.Context()))
	}
	must.Equal(t, "calls of systemd", []string{"pbs_jobs.service"}, u.calls)
	if !h.tree.Prepared() || !h.tree.Has("cpuset") {
		t.Errorf("prepared %t, controllers %v", h.tree.Prepared(), h.tree.Controllers())
	}
}

// If the unit's keeper dies while there are no jobs, systemd removes the unit's cgroup, but still
// shows the unit as active.
func TestStartParentWithoutItsCgroup(t *testing.T) {
	h, u := underSystemd(t, nil, "cpuset", "cpu", "memory", "pids")
	for range 2 {
		must.NoError(t, h.ensureParent(t.Context()))
		for _, dir := range []string{"pbs_jobs.service/jobs", "pbs_jobs.service"} {
			must.NoError(t, u.k.Roots().Cgroup.Rmdir(dir))
		}
	}
	if err := h.startParent(t.Context()); err != nil || !h.tree.Prepared() {
		t.Errorf("prepared %t, %v", h.tree.Prepared(), err)
	}
}

// If systemd does not answer, the hook does not create plain directories: systemd would take away
// their controllers.
func TestStartParentFails(t *testing.T) {
	h, u := underSystemd(t, nil, "cpuset", "cpu", "memory", "pids")
	u.err = errors.New("no answer within 10s")
	for _, call := range []func(context.Context) error{h.startParent, h.ensureParent} {
		err := call(t.Context())
		if err == nil || hostapi.KindOf(err) != hostapi.KindNode || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("got %v", err)
		}
	}
	if h.tree.Prepared() {
		t.Error("directories were made without systemd")
	}
	u.err = nil
	must.NoError(t, h.ensureParent(t.Context()))
	u.err = errors.New("no answer within 10s") // as during a daemon-reload: the existing unit is good enough
	if err := h.startParent(t.Context()); err != nil {
		t.Errorf("with a unit that is active: %v", err)
	}
}

// If systemd does not pass down a controller, the error names it before any job begins.
func TestStartParentMissesAController(t *testing.T) {
	h, _ := underSystemd(t, nil, "cpu", "memory", "pids")
	err := h.startParent(t.Context())
	if err == nil || hostapi.KindOf(err) != hostapi.KindNode || !strings.Contains(err.Error(), "[cpuset] is enabled") {
		t.Errorf("got %v", err)
	}
}

func TestOptionsWithoutSystemd(t *testing.T) {
	p := testPolicy(t, func(f *config.File) { f.Cgroup.EnableControllers = []string{"io"}; f.Pids.Enabled = false })
	s := systemd.New(t.TempDir(), time.Second)
	opt, err := p.options(s)
	want := cgroup.Options{
		Prefix:        "pbs_jobs",
		Enable:        []string{"io"},
		EnableIfThere: []string{"memory", "cpuset", "cpu", "io"},
		Controllers:   []string{"blkio"},
	}
	if diff := cmp.Diff(want, opt); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	p.Cgroup.Systemd = "require"
	if _, err := p.options(s); err == nil || !strings.Contains(err.Error(), "systemd is not the first process") {
		t.Errorf("require: got %v", err)
	}
}

// A directory in place of the unit does not get controllers from systemd. The hook says so, and
// what to do.
func TestParentMadeByHand(t *testing.T) {
	for _, systemds := range []bool{false, true} {
		k := kernfstest.NewV2()
		root := k.Roots().Cgroup
		must.NoError(t, root.Mkdir("pbs_jobs.service"))
		if systemds {
			id := []byte("0123456789abcdef0123456789abcdef")
			must.NoError(t, root.SetXattr("pbs_jobs.service", "trusted.invocation_id", id))
		}
		_, err := open(
			testPolicy(t, nil),
			k.Roots(),
			cgroup.Options{Signal: k.Signal, Delegated: true},
			logrus.NewEntry(logrus.New()),
		)
		if err == nil || hostapi.KindOf(err) != hostapi.KindNode {
			t.Fatalf("systemd's %t: %v", systemds, err)
		}
		const want = "/sys/fs/cgroup/pbs_jobs.service was not made by systemd, " +
			"which does not enable controllers in it. When no job runs, remove it"
		if got := strings.Contains(err.Error(), want); got == systemds {
			t.Errorf("systemd's %t: error %v; has %q: %t", systemds, err, want, got)
		}
	}
}
