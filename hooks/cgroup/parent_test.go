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
	"github.com/hookhost/hookhost/internal/systemd"
)

// fakeUnits is a systemd that starts the unit as the fake kernel's tree, and remembers what it was asked for.
type fakeUnits struct {
	k      *kernfstest.Kernel
	pass   []string
	err    error
	active bool
	calls  []string
	low    uint64
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

func (u *fakeUnits) SetMemoryLow(_ context.Context, unit string, bytes uint64) error {
	u.calls, u.low = append(u.calls, unit), bytes
	return nil
}

// underSystemd is a v2 node whose units systemd makes.
func underSystemd(t *testing.T, edit func(*config.File), pass ...string) (*hook, *fakeUnits) {
	t.Helper()
	k := kernfstest.NewV2()
	u := &fakeUnits{k: k, pass: pass}
	log := logrus.New()
	log.SetOutput(t.Output())
	h, err := open(testPolicy(t, edit), k.Roots(), cgroup.Options{Signal: k.Signal, Delegated: true}, logrus.NewEntry(log))
	if err != nil {
		t.Fatal(err)
	}
	h.units = u
	return h, u
}

// A hook opens on a node where the unit was never started, and has it started once.
func TestStartParent(t *testing.T) {
	h, u := underSystemd(t, nil, "cpuset", "cpu", "memory", "pids")
	if err := h.startParent(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := h.haveParent(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"pbs_jobs.service"}, u.calls); diff != "" {
		t.Errorf("calls of systemd (-want +got):\n%s", diff)
	}
	if !h.tree.Prepared() || !h.tree.Has("cpuset") {
		t.Errorf("prepared %t, controllers %v", h.tree.Prepared(), h.tree.Controllers())
	}
}

// Systemd removes the cgroup of the unit when its keeper dies and there are no jobs, and has it active all the same.
func TestStartParentWithoutItsCgroup(t *testing.T) {
	h, u := underSystemd(t, nil, "cpuset", "cpu", "memory", "pids")
	for range 2 {
		if err := h.haveParent(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{"pbs_jobs.service/jobs", "pbs_jobs.service"} {
			if err := u.k.Roots().Cgroup.Rmdir(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := h.startParent(t.Context()); err != nil || !h.tree.Prepared() {
		t.Errorf("prepared %t, %v", h.tree.Prepared(), err)
	}
}

// Plain directories are not the way out where systemd does not answer: it would take the controllers away.
func TestStartParentFails(t *testing.T) {
	h, u := underSystemd(t, nil, "cpuset", "cpu", "memory", "pids")
	u.err = errors.New("no answer within 10s")
	for _, call := range []func(context.Context) error{h.startParent, h.haveParent} {
		err := call(t.Context())
		if err == nil || hostapi.KindOf(err) != hostapi.KindNode || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("got %v", err)
		}
	}
	if h.tree.Prepared() {
		t.Error("directories were made without systemd")
	}
	u.err = nil
	if err := h.haveParent(t.Context()); err != nil {
		t.Fatal(err)
	}
	u.err = errors.New("no answer within 10s") // as in a daemon-reload: what is there will do
	if err := h.startParent(t.Context()); err != nil {
		t.Errorf("with a unit that is active: %v", err)
	}
}

// What systemd does not pass down is missed by name, before a job is.
func TestStartParentMissesAController(t *testing.T) {
	h, _ := underSystemd(t, nil, "cpu", "memory", "pids")
	err := h.startParent(t.Context())
	if err == nil || hostapi.KindOf(err) != hostapi.KindNode || !strings.Contains(err.Error(), "[cpuset] is enabled") {
		t.Errorf("got %v", err)
	}
}

func TestProtectServices(t *testing.T) {
	h, u := underSystemd(t, func(f *config.File) { f.Memory.ServicesLow = 1 << 30 }, "cpuset", "cpu", "memory", "pids")
	if err := u.k.Roots().Cgroup.Mkdir("system.slice"); err != nil {
		t.Fatal(err)
	}
	if err := h.startParent(t.Context()); err != nil {
		t.Fatal(err)
	}
	if u.low != 1<<30 {
		t.Errorf("memory.low of system.slice: asked for %d", u.low)
	}
	inForce := func(text string) {
		t.Helper()
		if err := u.k.Roots().Cgroup.Write("system.slice/memory.low", text); err != nil {
			t.Fatal(err)
		}
	}
	inForce("1073741824")
	u.calls = nil
	if err := h.protectServices(t.Context()); err != nil || len(u.calls) > 0 {
		t.Errorf("asked again for what is in force: %v, %v", u.calls, err)
	}
	// What is not configured any more is lifted, once; what somebody else has set is not.
	h.policy.Memory.ServicesLow = 0
	for _, calls := range []int{1, 0} {
		u.calls = nil
		if err := h.protectServices(t.Context()); err != nil || len(u.calls) != calls || u.low != 0 {
			t.Errorf("asked %v, memory.low %d, %v; want %d calls", u.calls, u.low, err, calls)
		}
		inForce("1048576")
	}
}

// The mount is changed once, and only where that is wanted; a node that cannot do it has its jobs all the same.
func TestFavorMoves(t *testing.T) {
	for _, tt := range []struct {
		name   string
		wanted bool
		opts   []kernfstest.Option
		want   []string // remounts
		says   string
	}{
		{name: "by default"},
		{name: "wanted", wanted: true, want: []string{"nsdelegate,favordynmods"}, says: "from now on"},
		{name: "there", wanted: true, opts: []kernfstest.Option{kernfstest.Mounted("favordynmods")}},
		{name: "an old kernel", wanted: true, opts: []kernfstest.Option{kernfstest.Without("favordynmods")}, want: []string{"nsdelegate,favordynmods", "nsdelegate,favordynmods"},
			says: "it needs Linux 6.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := kernfstest.NewV2(append([]kernfstest.Option{kernfstest.Mounted("nsdelegate")}, tt.opts...)...)
			var logged strings.Builder
			log := logrus.New()
			log.SetOutput(&logged)
			h, err := open(testPolicy(t, func(f *config.File) { f.Cgroup.FavorDynmods = tt.wanted }), k.Roots(),
				cgroup.Options{Signal: k.Signal, EnableIfThere: []string{"memory", "cpuset", "cpu", "pids"}}, logrus.NewEntry(log))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := h.startParent(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			var remounts []string
			for _, op := range k.Journal() {
				if op.Op == "remount" {
					remounts = append(remounts, op.Value)
				}
			}
			if diff := cmp.Diff(tt.want, remounts); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := logged.String(); strings.Count(got, "favordynmods") > 0 != (tt.says != "") || !strings.Contains(got, tt.says) {
				t.Errorf("logged %s", got)
			}
		})
	}
}

func TestOptionsWithoutSystemd(t *testing.T) {
	p := testPolicy(t, func(f *config.File) { f.Cgroup.EnableControllers = []string{"io"}; f.Pids.Enabled = false })
	s := systemd.New(t.TempDir(), time.Second)
	opt, err := p.options(s)
	want := cgroup.Options{Prefix: "pbs_jobs", Enable: []string{"io"}, EnableIfThere: []string{"memory", "cpuset", "cpu"}}
	if diff := cmp.Diff(want, opt); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	p.Cgroup.Systemd = "require"
	if _, err := p.options(s); err == nil || !strings.Contains(err.Error(), "systemd is not the first process") {
		t.Errorf("require: got %v", err)
	}
}

// A directory in the unit's place has no controllers from systemd: the hook says so, and what to do.
func TestParentMadeByHand(t *testing.T) {
	for _, systemds := range []bool{false, true} {
		k := kernfstest.NewV2()
		root := k.Roots().Cgroup
		if err := root.Mkdir("pbs_jobs.service"); err != nil {
			t.Fatal(err)
		}
		if systemds {
			if err := root.SetXattr("pbs_jobs.service", "trusted.invocation_id", []byte("0123456789abcdef0123456789abcdef")); err != nil {
				t.Fatal(err)
			}
		}
		_, err := open(testPolicy(t, nil), k.Roots(), cgroup.Options{Signal: k.Signal, Delegated: true}, logrus.NewEntry(logrus.New()))
		if err == nil || hostapi.KindOf(err) != hostapi.KindNode {
			t.Fatalf("systemd's %t: %v", systemds, err)
		}
		const want = "/sys/fs/cgroup/pbs_jobs.service is not systemd's, which would pass the controllers on to it: somebody else made it. Remove it"
		if got := strings.Contains(err.Error(), want); got == systemds {
			t.Errorf("systemd's %t: error %v; has %q: %t", systemds, err, want, got)
		}
	}
}
