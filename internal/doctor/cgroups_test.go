package doctor

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestContainerIsNoticedByItsNamespace(t *testing.T) {
	k := &kernel{mounts: []cgroup.Mount{{Point: "/sys/fs/cgroup", Root: "/", V2: true}}}
	if f := k.examineNamespace(initialCgroupNamespace); f != nil {
		t.Errorf("a plain node: %+v", f)
	}
	f := k.examineNamespace("cgroup:[4026532999]")
	if len(f) != 1 || f[0].Status != Degraded || !strings.Contains(f[0].Advice, "--cgroupns=host") {
		t.Errorf("a cgroup namespace: %+v", f)
	}
	k.mounts[0].Root = "/docker/abc"
	if f := k.examineNamespace(""); len(f) != 1 || !strings.Contains(f[0].Found, "/docker/abc") {
		t.Errorf("a bind mount: %+v", f)
	}
}

func TestPartOfATreeIsNotTakenForItsRoot(t *testing.T) {
	fake := kernfstest.NewV2()
	roots := fake.Roots()
	passDown(t, roots, "memory")
	below, err := roots.Cgroup.Sub("system.slice")
	must.NoError(t, err)
	k := &kernel{v2: roots.Cgroup, mounts: []cgroup.Mount{{Point: "/sys/fs/cgroup", Root: "/", V2: true}}}
	if f := k.examineNesting(); f != nil {
		t.Errorf("a plain node: %+v", f)
	}
	k.v2 = below
	f := k.examineNesting()
	if len(f) != 1 || f[0].Blocks || !strings.Contains(f[0].Found, "below another cgroup") {
		t.Errorf("a part of a tree: %+v", f)
	}
	fake.Spawn("system.slice")
	f = k.examineNesting()
	if len(f) != 1 || !strings.Contains(f[0].Advice, "Delegate=yes") ||
		!strings.Contains(f[0].Found, "contains processes") {
		t.Errorf("with processes in its root: %+v", f)
	}
	k.mounts[0].ReadOnly = true
	if f := k.examineNesting(); len(f) != 1 || !f[0].Blocks {
		t.Errorf("read-only: %+v", f)
	}
}
