package kernfstest

import (
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// coreRules are of the part of v2 that a tree without controllers has. A real process takes a
// moment to freeze and to die.
var coreRules = []rule{
	{"directories", []step{
		mkdir("v2/a"),
		mkdir("v2/a").fails(unix.EEXIST),
		mkdir("v2/a/b"),
		mkdir("v2/a/cgroup.procs").fails(unix.EEXIST),
		rmdir("v2/a").fails(unix.EBUSY),
		rmdir("v2/a/cgroup.procs").fails(unix.ENOTDIR),
		read("v2/a/memory.max", "").fails(unix.ENOENT),
	}},
	{"processes", []step{
		mkdir("v2/a"),
		read("v2/a/cgroup.events", "populated 0\nfrozen 0\n"),
		write("v2/a/cgroup.procs", "$p"),
		read("v2/a/cgroup.procs", "$p\n"),
		read("v2/cgroup.events", "populated 1\nfrozen 0\n"),
		rmdir("v2/a").fails(unix.EBUSY),
		mkdir("v2/a/b"),
		write("v2/a/b/cgroup.procs", "$p"),
		read("v2/a/cgroup.procs", ""),
		read("v2/a/cgroup.events", "populated 1\nfrozen 0\n"),
		exit("p"),
		read("v2/a/cgroup.events", "populated 0\nfrozen 0\n"),
		write("v2/a/cgroup.procs", "$p").fails(unix.ESRCH),
		write("v2/a/cgroup.procs", "x").fails(unix.EINVAL),
	}},
	{"subtree_control", []step{
		mkdir("v2/a"),
		write("v2/a/cgroup.subtree_control", "+nosuch").fails(unix.EINVAL),
		write("v2/a/cgroup.subtree_control", "memory").fails(unix.EINVAL),
		write("v2/a/cgroup.subtree_control", "+hugetlb").fails(unix.ENOENT),
		write("v2/a/cgroup.subtree_control", "-hugetlb"),
	}},
	{"bounds of directories", []step{
		mkdir("v2/a"),
		read("v2/a/cgroup.max.depth", "max\n"),
		read("v2/a/cgroup.max.descendants", "max\n"),
		write("v2/a/cgroup.max.depth", "2"),
		write("v2/a/cgroup.max.descendants", "3"),
		write("v2/a/cgroup.max.depth", "-1").fails(unix.ERANGE),
		write("v2/a/cgroup.max.descendants", "x").fails(unix.EINVAL),
		mkdir("v2/a/b"),
		mkdir("v2/a/b/c"),
		mkdir("v2/a/b/c/d").fails(unix.EAGAIN),
		mkdir("v2/a/e"),
		mkdir("v2/a/f").fails(unix.EAGAIN),
		write("v2/a/cgroup.max.descendants", "0"), // what exists stays
		read("v2/a/cgroup.max.descendants", "0\n"),
		mkdir("v2/a/b").fails(unix.EEXIST),
		rmdir("v2/a/e"),
		mkdir("v2/a/e").fails(unix.EAGAIN),
		write("v2/a/cgroup.max.descendants", "max"),
		mkdir("v2/a/e"),
	}},
	{"freezing processes", []step{
		mkdir("v2/a"),
		mkdir("v2/a/b"),
		write("v2/a/cgroup.freeze", "2").fails(unix.ERANGE),
		write("v2/a/b/cgroup.procs", "$p"),
		write("v2/a/cgroup.freeze", "1"),
		awaits("v2/a/cgroup.events", "populated 1\nfrozen 1\n"),
		awaits("v2/a/b/cgroup.events", "populated 1\nfrozen 1\n"),
		read("v2/a/b/cgroup.freeze", "0\n"),
		write("v2/a/cgroup.procs", "$q"), // freezes as it comes
		awaits("v2/a/cgroup.events", "populated 1\nfrozen 1\n"),
		kill("p"), // no thaw needed
		awaits("v2/a/b/cgroup.events", "populated 0\nfrozen 1\n"),
		write("v2/cgroup.procs", "$q"),
		fork("q", "c"), // it runs again
		write("v2/a/cgroup.freeze", "0"),
		awaits("v2/a/cgroup.events", "populated 0\nfrozen 0\n"),
	}},
	{"cgroup.kill", []step{
		mkdir("v2/a"),
		mkdir("v2/a/b"),
		where("v2/a/cgroup.kill", write("v2/a/cgroup.kill", "0").fails(unix.ERANGE)),
		write("v2/a/cgroup.procs", "$p"),
		fork("p", "c"),
		write("v2/a/b/cgroup.procs", "$q"),
		write("v2/a/b/cgroup.procs", "$c"),
		write("v2/cgroup.procs", "$r"),
		write("v2/a/cgroup.freeze", "1"),
		where("v2/a/cgroup.kill", write("v2/a/cgroup.kill", "1")),
		before("v2/a/cgroup.kill", kill("p")), // 5.14; its child goes with it
		before("v2/a/cgroup.kill", kill("q")),
		awaits("v2/a/cgroup.events", "populated 0\n"),
		awaitsEmpty("v2/a/b/cgroup.procs"),
		read("v2/cgroup.procs", "$r\n"),
		rmdir("v2/a/b"),
		rmdir("v2/a"),
	}},
	{"zombies", []step{
		mkdir("v2/a"),
		write("v2/a/cgroup.procs", "$p"),
		zombie("p"),
		awaits("v2/a/cgroup.events", "populated 0\n"),
		read("v2/a/cgroup.procs", ""),
		write("v2/cgroup.procs", "$p"),
		rmdir("v2/a"),
	}},
}

// bothRules need the v1 freezer beside a v2 tree.
var bothRules = []rule{
	{"cgroup.kill does not reach into the v1 freezer", []step{
		mkdir("freezer/a"),
		mkdir("v2/a"),
		write("freezer/a/cgroup.procs", "$p"),
		write("v2/a/cgroup.procs", "$p"),
		write("freezer/a/freezer.state", "FROZEN"),
		awaits("freezer/a/freezer.state", "FROZEN\n"),
		where("v2/a/cgroup.kill", write("v2/a/cgroup.kill", "1")),
		contains("v2/a/cgroup.procs", "$p\n"),
		contains("v2/a/cgroup.events", "populated 1\n"),
		write("freezer/a/freezer.state", "THAWED"),
		where("v2/a/cgroup.kill", awaits("v2/a/cgroup.events", "populated 0\n")),
	}},
}

// v2Rules start in a cgroup that has cpuset, cpu, io, memory and pids enabled for its children.
var v2Rules = []rule{
	{"enabling controllers", []step{
		mkdir("v2/a"),
		read("v2/a/cgroup.controllers", "cpuset cpu io memory pids\n"),
		mkdir("v2/a/b"),
		read("v2/a/b/memory.max", "").fails(unix.ENOENT),
		write("v2/a/b/cgroup.subtree_control", "+memory").fails(unix.ENOENT),
		write("v2/a/cgroup.subtree_control", "+memory +pids"),
		read("v2/a/cgroup.subtree_control", "memory pids\n"),
		write("v2/a/b/memory.max", "1M"),
		write("v2/a/b/cgroup.subtree_control", "+memory"),
		write("v2/a/cgroup.subtree_control", "-memory").fails(unix.EBUSY),
		write("v2/a/b/cgroup.subtree_control", "-memory"),
		write("v2/a/cgroup.subtree_control", "-memory +cpu"),
		read("v2/a/b/memory.max", "").fails(unix.ENOENT),
		write("v2/a/cgroup.subtree_control", "+memory"),
		read("v2/a/b/memory.max", "max\n"), // anew
	}},
	{"no internal processes", []step{
		mkdir("v2/a"),
		mkdir("v2/a/b"),
		write("v2/a/cgroup.procs", "$p"),
		write("v2/a/cgroup.subtree_control", "+memory").fails(unix.EBUSY),
		write("v2/a/b/cgroup.procs", "$p"),
		write("v2/a/cgroup.subtree_control", "+memory"),
		write("v2/a/cgroup.procs", "$p").fails(unix.EBUSY),
	}},
	{"memory", []step{
		mkdir("v2/a"),
		write("v2/a/memory.max", "65537"),
		read("v2/a/memory.max", "65536\n"),
		write("v2/a/memory.max", "-1").fails(unix.EINVAL),
		write("v2/a/memory.max", "max"),
		read("v2/a/memory.max", "max\n"),
		write("v2/a/memory.oom.group", "2").fails(unix.EINVAL),
		write("v2/a/memory.current", "0").fails(unix.EINVAL),
	}},
	{"memory.oom.group", []step{
		mkdir("v2/a"),
		write("v2/a/memory.max", "32M"),
		write("v2/a/memory.swap.max", "0"),
		write("v2/a/memory.oom.group", "1"),
		write("v2/a/cgroup.procs", "$q"),
		write("v2/a/cgroup.procs", "$p"),
		anon("p", 48).fails(unix.ESRCH),
		awaitsEmpty("v2/a/cgroup.procs"),
		// The kernel counts each process once, and the first of them once more unless it is gone by
		// then. All of them count again for each thread that met the limit meanwhile.
		later(between("v2/a/memory.events", "oom_kill", 2, 9)),
		where("v2/a/memory.peak", later(between("v2/a/memory.events", "oom_group_kill", 1, 4))), // 5.17
	}},
	{"memory.max below the use", []step{
		mkdir("v2/a"),
		write("v2/a/memory.swap.max", "0"),
		write("v2/a/cgroup.procs", "$p"),
		anon("p", 48),
		write("v2/a/memory.max", "16M"),
		awaits("v2/a/memory.events", "oom_kill 1\n"),
		awaitsEmpty("v2/a/cgroup.procs"),
	}},
	{"cpu", []step{
		mkdir("v2/a"),
		write("v2/a/cpu.weight", "0").fails(unix.ERANGE),
		write("v2/a/cpu.weight", "x").fails(unix.EINVAL),
		write("v2/a/cpu.max", "50000"),
		read("v2/a/cpu.max", "50000 100000\n"),
		write("v2/a/cpu.max", "max 200000"),
		read("v2/a/cpu.max", "max 200000\n"),
		write("v2/a/cpu.max", "999").fails(unix.EINVAL),
		write("v2/a/cpu.max", "5000 1000001").fails(unix.EINVAL),
		write("v2/a/cgroup.subtree_control", "+cpu"),
		mkdir("v2/a/b"),
		write("v2/a/cpu.max", "50000 100000"),
		write("v2/a/b/cpu.max", "80000 100000"), // taken: the parent's counts
	}},
	{"cpuset", []step{
		mkdir("v2/a"),
		write("v2/a/cgroup.subtree_control", "+cpuset"),
		mkdir("v2/a/b"),
		write("v2/a/cpuset.cpus", "1"),
		read("v2/a/b/cpuset.cpus.effective", "1\n"),
		write("v2/a/b/cpuset.cpus", "0-1"), // taken, where v1 says EACCES
		read("v2/a/b/cpuset.cpus.effective", "1\n"),
		write("v2/a/b/cpuset.cpus", "0"),
		read("v2/a/b/cpuset.cpus.effective", "1\n"), // nothing of it left: the parent's
		write("v2/a/cpuset.cpus", "0"),
		read("v2/a/b/cpuset.cpus.effective", "0\n"),
		write("v2/a/b/cpuset.cpus", "\n"),
		write("v2/a/b/cgroup.procs", "$p"), // no cpus of its own: no matter
		write("v2/a/cpuset.cpus", "0-"+strconv.Itoa(here.CPUs)).fails(unix.ERANGE),
		write("v2/a/cpuset.mems", strconv.Itoa(here.NUMA)).fails(unix.EINVAL),
	}},
	{"limits go with their controller", []step{
		mkdir("v2/a"),
		write("v2/a/cgroup.subtree_control", "+memory +pids"),
		mkdir("v2/a/b"),
		write("v2/a/b/pids.max", "0"),
		write("v2/a/b/cgroup.procs", "$p"),
		fork("p", "c").fails(unix.EAGAIN),
		write("v2/a/cgroup.subtree_control", "-pids"),
		fork("p", "c"),
	}},
}

var v2Needs = []string{"cpuset", "cpu", "io", "memory", "pids"}

func TestRulesV2(t *testing.T) {
	enable := func(t *testing.T, w *world, file string) {
		for _, c := range v2Needs {
			must.NoError(t, w.cgroup.Write(file, "+"+c))
		}
	}
	fake := func(t *testing.T) *world {
		w := fakeV2(t)
		enable(t, w, "cgroup.subtree_control")
		return w
	}
	kernel := func(t *testing.T) *world { return realWorld(NeedV2(t, v2Needs...)) }
	for name, open := range map[string]func(*testing.T) *world{"fake": fake, "kernel": kernel} {
		for _, r := range v2Rules {
			t.Run(name+"/"+r.name, func(t *testing.T) {
				w := open(t)
				w.begin(t, "v2")
				enable(t, w, w.file("v2/cgroup.subtree_control"))
				w.check(t, r)
			})
		}
	}
}
