package cgroup

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestFavorDynmods(t *testing.T) {
	asSystemd := kernfstest.Mounted("nsdelegate", "memory_recursiveprot")
	for _, tt := range []struct {
		name   string
		kernel *kernfstest.Kernel
		set    bool
		err    error
		want   string // the options after it
	}{
		{"v2", kernfstest.NewV2(asSystemd), true, nil, "nsdelegate,favordynmods,memory_recursiveprot"},
		{"hybrid", kernfstest.NewHybrid(), true, nil, "favordynmods"},
		{"set", kernfstest.NewV2(kernfstest.Mounted("nsdelegate", "favordynmods")), false, nil,
			"nsdelegate,favordynmods"},
		{"Linux 5.10", kernfstest.NewV2(asSystemd, kernfstest.Without("favordynmods")), false, ErrUnsupported,
			"nsdelegate,memory_recursiveprot"},
		{"another namespace", kernfstest.NewV2(asSystemd, kernfstest.Inner()), false, ErrNotInForce,
			"nsdelegate,memory_recursiveprot"},
		{"v1", kernfstest.NewV1(), false, ErrUnsupported, ""},
		{"an option with a value", kernfstest.NewV2(kernfstest.Mounted("nsdelegate", "some=thing")), false,
			ErrUnsupported, "nsdelegate,some=thing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := detected(t, tt.kernel, Options{})
			set, err := tree.FavorDynmods()
			if set != tt.set || !errors.Is(err, tt.err) {
				t.Errorf("got %v, %v; want %v, %v", set, err, tt.set, tt.err)
			}
			if got := optionsOf(t, tree); got != tt.want {
				t.Errorf("the mount has %q, want %q", got, tt.want)
			}
			if set, _ := tree.FavorDynmods(); set {
				t.Error("set again")
			}
		})
	}
}

// optionsOf returns the options of the v2 mount without those that every mount has.
func optionsOf(t *testing.T, tree *Tree) string {
	t.Helper()
	mounts, err := Mounts(tree.proc)
	must.NoError(t, err)
	for _, m := range mounts {
		if m.V2 {
			return strings.Join(slices.DeleteFunc(m.Options, func(o string) bool { return o == "rw" }), ",")
		}
	}
	return ""
}

func TestOwnOptions(t *testing.T) {
	got, err := ownOptions([]string{"rw", "seclabel", "nsdelegate", "favordynmods", "memory_recursiveprot",
		"memory_hugetlb_accounting", "lazytime"})
	if diff := cmp.Diff([]string{"nsdelegate", "favordynmods", "memory_recursiveprot", "memory_hugetlb_accounting"},
		got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

// The option is the whole kernel's, so a guest's is tried. None of the options that systemd has set
// is lost.
func TestFavorDynmodsOfAKernel(t *testing.T) {
	if _, err := os.Stat("/lab/.lab/command"); err != nil {
		kernfstest.Elsewhere(t, "no guest of the laboratory: this machine's mounts are not the test's to change")
	}
	tree, err := Detect(needKernel(t, 0).roots, Options{})
	must.NoError(t, err)
	if tree.v2 == nil {
		kernfstest.Elsewhere(t, "no cgroup2 tree is mounted")
	}
	before, err := tree.v2Options()
	must.NoError(t, err)
	if slices.Contains(before, favorDynmods) { // a benchmark ran before
		before = slices.DeleteFunc(before, func(o string) bool { return o == favorDynmods })
		must.NoError(t, tree.v2.mount.Remount(".", before))
	}
	set, err := tree.FavorDynmods()
	if errors.Is(err, ErrUnsupported) {
		if after, err := tree.v2Options(); err != nil || !slices.Equal(after, before) {
			t.Errorf("refused, and now %q, before %q; %v", after, before, err)
		}
		kernfstest.Elsewhere(t, "%v", err)
	}
	if err != nil || !set {
		t.Fatalf("got %v, %v", set, err)
	}
	defer func() {
		if err := tree.v2.mount.Remount(".", before); err != nil {
			t.Error(err)
		}
		if after, err := tree.v2Options(); err != nil || !slices.Equal(after, before) {
			t.Errorf("taken back: %q, %v; want %q", after, err, before)
		}
	}()
	after, err := tree.v2Options()
	want := append(slices.Clone(before), favorDynmods)
	slices.Sort(want)
	slices.Sort(after)
	if diff := cmp.Diff(want, after); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if set, err := tree.FavorDynmods(); set || err != nil {
		t.Errorf("again: got %v, %v", set, err)
	}
}
