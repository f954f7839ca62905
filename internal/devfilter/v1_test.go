package devfilter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/devrule"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestChangesV1(t *testing.T) {
	for _, tt := range []struct{ have, want, writes []string }{
		{nil, nil, nil},
		{nil, []string{"c 1:3 rw"}, []string{"allow c 1:3 rw"}},
		{[]string{"c 1:3 rw"}, []string{"c 1:3 rw"}, nil},
		{[]string{"c 1:3 rw"}, nil, []string{"deny c 1:3 rw"}},
		{[]string{"c 1:3 rwm", "c 1:5 r"}, []string{"c 1:3 r", "c 1:5 rw"}, []string{"allow c 1:5 w", "deny c 1:3 wm"}},
		{[]string{"c 1:3 r"}, []string{"c 1:3 w"}, []string{"deny c 1:3 r", "allow c 1:3 w"}},
		{[]string{"c 1:3 rw"}, []string{"c 1:* rwm"}, []string{"allow c 1:* rwm", "deny c 1:3 rw"}},
	} {
		var got []string
		for _, c := range changesV1(mustRules(t, tt.have...), mustRules(t, tt.want...)) {
			got = append(got, strings.TrimPrefix(c.file, "devices.")+" "+c.rule.String())
		}
		must.Equal(t, fmt.Sprintf("%q to %q", tt.have, tt.want), tt.writes, got)
	}
}

// On the way from one list to another nothing is let through that both deny. An open that both
// allow passes, unless an exchange of accesses is part of the change.
func TestChangesV1OnTheWay(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		old, want := devrule.Normalise(randomRules(r)), devrule.Normalise(randomRules(r))
		list := slices.Clone(old)
		changes := changesV1(old, want)
		exchange := false
		for i, c := range changes[:max(0, len(changes)-1)] {
			exchange = exchange || c.file == "devices.deny" && changes[i+1].file == "devices.allow"
		}
		for _, c := range changes {
			list = applyV1(list, c)
			for _, kind := range []devrule.Kind{devrule.Block, devrule.Char} {
				for _, major := range someMajors {
					for _, minor := range someMinors {
						for access := range devrule.All + 1 {
							allowed := func(rules []devrule.Rule) bool {
								return devrule.Allows(rules, kind, major, minor, access)
							}
							before, after, now := allowed(old), allowed(want), allowed(list)
							if now && !before && !after {
								t.Fatalf("seed %d: %q to %q: %q lets %v through", seed, texts(old), texts(want),
									texts(list), devrule.Rule{Kind: kind, Major: major, Minor: minor, Access: access})
							}
							if !now && before && after && !exchange {
								t.Fatalf("seed %d: %q to %q: %q does not let %v through", seed, texts(old), texts(want),
									texts(list), devrule.Rule{Kind: kind, Major: major, Minor: minor, Access: access})
							}
						}
					}
				}
			}
		}
		if diff := cmp.Diff(texts(want), texts(devrule.Normalise(list))); diff != "" {
			t.Fatalf("seed %d: %q to %q (-want +got):\n%s", seed, texts(old), texts(want), diff)
		}
	}
}

// applyV1 is what the kernel does with a write (dev_exception_add, dev_exception_rm).
func applyV1(list []devrule.Rule, c change) []devrule.Rule {
	i := slices.IndexFunc(list, func(r devrule.Rule) bool { return devrule.Compare(r, c.rule) == 0 })
	switch {
	case c.file == "devices.allow" && i < 0:
		return append(slices.Clone(list), c.rule)
	case i < 0:
		return list
	}
	list = slices.Clone(list)
	if c.file == "devices.allow" {
		list[i].Access |= c.rule.Access
	} else if list[i].Access &^= c.rule.Access; list[i].Access == 0 {
		list = slices.Delete(list, i, i+1)
	}
	return list
}

func fakeV1(t *testing.T) (*kernfstest.Kernel, *kernfs.FS) {
	t.Helper()
	k := kernfstest.NewV1()
	cgroups := k.Roots().Cgroup
	must.NoError(t, cgroups.Mkdir("devices/job"))
	dir, err := cgroups.Sub("devices/job")
	must.NoError(t, err)
	return k, dir
}

func TestV1WritesTheDifference(t *testing.T) {
	k, dir := fakeV1(t)
	mustInstall(t, Place{V1: dir}, "c 1:3 rwm", "c 195:0 rw")
	k.ResetJournal()
	mustInstall(t, Place{V1: dir}, "c 195:1 rw", "c 1:3 rwm")
	mustInstall(t, Place{V1: dir}, "c 195:1 rw", "c 1:3 rwm")
	var got []string
	for _, op := range k.Journal() {
		got = append(got, op.String())
	}
	want := []string{`write devices/job/devices.allow "c 195:1 rw"`, `write devices/job/devices.deny "c 195:0 rw"`}
	must.Equal(t, "writes", want, got)
}

func TestV1FailsClosed(t *testing.T) {
	for _, file := range []string{"devices.deny", "devices.allow", "devices.list"} {
		k, dir := fakeV1(t)
		op := "write"
		if file == "devices.list" {
			op = "read"
		}
		heal := k.Fail(op, "job/"+file, unix.EPERM)
		if err := Install(Place{V1: dir}, mustRules(t, "c 1:3 rw")); !errors.Is(err, unix.EPERM) {
			t.Errorf("install where %s fails: %v, want EPERM", file, err)
		}
		heal()
		if err := InForce(Place{V1: dir}, mustRules(t, "c 1:3 rw")); err == nil {
			t.Errorf("in force, though %s failed", file)
		}
		mustInstall(t, Place{V1: dir}, "c 1:3 rw")
	}
}

// A job inside of a container or a unit can be given no more than that has.
func TestV1ParentAllowsLess(t *testing.T) {
	k, _ := fakeV1(t)
	cgroups := k.Roots().Cgroup
	must.NoError(t, cgroups.Mkdir("devices/outer"))
	outer, _ := cgroups.Sub("devices/outer")
	mustInstall(t, Place{V1: outer}, "c 1:3 rwm", "c 1:5 rwm")
	must.NoError(t, outer.Mkdir("job"))
	job, _ := outer.Sub("job")
	mustInstall(t, Place{V1: job}, "c 1:3 rw") // it began with the parent's list
	if err := InForce(Place{V1: job}, mustRules(t, "c 1:3 rw")); err != nil {
		t.Error(err)
	}
	err := Install(Place{V1: job}, mustRules(t, "c 1:3 rw", "c 1:7 r"))
	if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "c 1:7 r") {
		t.Errorf("install: %v, want EPERM for c 1:7 r", err)
	}
}

func TestV1SaysWhatIsWrong(t *testing.T) {
	_, dir := fakeV1(t)
	mustInstall(t, Place{V1: dir}, "c 1:3 rwm", "c 1:5 r")
	err := InForce(Place{V1: dir}, mustRules(t, "c 1:3 r", "c 1:5 rw"))
	want := `device filter of /sys/fs/cgroup/devices/job: it allows "c 1:3 wm", which is not in the rules, lacks "c 1:5 w"`
	if got := fmt.Sprint(err); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
