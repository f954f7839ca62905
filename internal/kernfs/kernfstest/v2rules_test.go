package kernfstest

import (
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

const noEvents = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n"

// v2Rules start in a cgroup that has cpuset, cpu, io, memory and pids enabled for its children.
var v2Rules = []rule{
	{"enabling controllers", []step{
		mkdir("v2/a"),
		read("v2/a/cgroup.controllers", "cpuset cpu io memory pids\n"),
		read("v2/a/cgroup.subtree_control", ""),
		mkdir("v2/a/b"),
		read("v2/a/b/memory.max", "").fails(unix.ENOENT),
		write("v2/a/b/cgroup.subtree_control", "+memory").fails(unix.ENOENT),
		write("v2/a/cgroup.subtree_control", "+memory +pids"),
		read("v2/a/cgroup.subtree_control", "memory pids\n"),
		read("v2/a/b/memory.max", "max\n"),
		read("v2/a/b/cpu.max", "").fails(unix.ENOENT),
		write("v2/a/b/memory.max", "1M"),
		write("v2/a/b/cgroup.subtree_control", "+memory"),
		write("v2/a/cgroup.subtree_control", "-memory").fails(unix.EBUSY),
		write("v2/a/b/cgroup.subtree_control", "-memory"),
		write("v2/a/cgroup.subtree_control", "-memory +cpu"),
		read("v2/a/cgroup.subtree_control", "cpu pids\n"),
		read("v2/a/b/memory.max", "").fails(unix.ENOENT),
		write("v2/a/cgroup.subtree_control", "+memory"),
		read("v2/a/b/memory.max", "max\n"), // anew
		write("v2/a/cgroup.subtree_control", "+memory +nosuch").fails(unix.EINVAL),
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
	{"no internal processes", []step{
		mkdir("v2/a"),
		mkdir("v2/a/b"),
		write("v2/a/cgroup.procs", "$p"),
		write("v2/a/cgroup.subtree_control", "+memory").fails(unix.EBUSY),
		write("v2/a/cgroup.subtree_control", "+cpu +memory").fails(unix.EBUSY),
		write("v2/a/cgroup.subtree_control", "+pids"), // threaded controllers may be
		write("v2/a/cgroup.subtree_control", "+memory").fails(unix.EOPNOTSUPP),
		read("v2/a/cgroup.type", "domain threaded\n"),
		read("v2/a/b/cgroup.type", "domain invalid\n"), // below a thread root
		write("v2/a/b/cgroup.procs", "$p").fails(unix.EOPNOTSUPP),
		write("v2/a/b/cgroup.subtree_control", "+pids").fails(unix.EOPNOTSUPP),
		mkdir("v2/c"),
		write("v2/c/cgroup.procs", "$p"),
		read("v2/a/b/cgroup.type", "domain\n"),
		write("v2/a/b/cgroup.procs", "$p"),
		write("v2/a/cgroup.subtree_control", "+memory"),
		write("v2/a/cgroup.procs", "$p").fails(unix.EBUSY),
	}},
	{"memory", []step{
		mkdir("v2/a"),
		read("v2/a/memory.max", "max\n"),
		read("v2/a/memory.high", "max\n"),
		read("v2/a/memory.low", "0\n"),
		read("v2/a/memory.min", "0\n"),
		read("v2/a/memory.current", "0\n"),
		read("v2/a/memory.oom.group", "0\n"),
		contains("v2/a/memory.events", noEvents),
		write("v2/a/memory.max", "65537"),
		read("v2/a/memory.max", "65536\n"),
		write("v2/a/memory.max", "64M\n"),
		read("v2/a/memory.max", "67108864\n"),
		write("v2/a/memory.max", "-1").fails(unix.EINVAL),
		write("v2/a/memory.max", "64MB").fails(unix.EINVAL),
		write("v2/a/memory.max", "max"),
		read("v2/a/memory.max", "max\n"),
		write("v2/a/memory.oom.group", "2").fails(unix.EINVAL),
		write("v2/a/memory.oom.group", "1"),
		read("v2/a/memory.oom.group", "1\n"),
		write("v2/a/memory.current", "0").fails(unix.EINVAL),
	}},
	{"memory is counted", []step{
		mkdir("v2/a"),
		write("v2/a/cgroup.procs", "$p"),
		anon("p", 32),
		shmem("p", 16),
		pagecache("p", 8),
		between("v2/a/memory.current", "", 56*mb, 66*mb),
		where("v2/a/memory.peak", between("v2/a/memory.peak", "", 56*mb, 66*mb)),
		// Up to 32 pages a cpu are not in memory.stat yet before Linux 5.16.
		between("v2/a/memory.stat", "anon", 31*mb, 36*mb),
		between("v2/a/memory.stat", "shmem", 15*mb, 17*mb),
		between("v2/a/memory.stat", "file", 23*mb, 28*mb),
		exit("p"),
		where("v2/a/memory.peak", between("v2/a/memory.peak", "", 56*mb, 66*mb)),
		between("v2/a/memory.stat", "anon", 0, 1*mb),
	}},
	{"out of memory", []step{
		mkdir("v2/a"),
		write("v2/a/cgroup.subtree_control", "+memory"),
		mkdir("v2/a/b"),
		write("v2/a/memory.max", "32M"),
		write("v2/a/memory.swap.max", "0"),
		write("v2/a/b/cgroup.procs", "$q"),
		write("v2/a/b/cgroup.procs", "$p"),
		anon("p", 48).fails(unix.ESRCH),
		awaits("v2/a/memory.events", "oom_kill 1\n"),
		awaits("v2/a/memory.events.local", "oom_kill 0\n"),
		between("v2/a/memory.events.local", "oom", 1, 1e9),
		between("v2/a/memory.events.local", "max", 1, 1e9),
		awaits("v2/a/b/memory.events", "oom 0\noom_kill 1\n"),
		where("v2/a/memory.peak", between("v2/a/memory.peak", "", 32*mb, 33*mb)),
		awaits("v2/a/b/cgroup.procs", "$q\n"),
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
		// Once for each process, once more for the first of them unless it is gone by then, and all of them again for
		// each thread that met the limit meanwhile.
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
		read("v2/a/cpu.weight", "100\n"),
		write("v2/a/cpu.weight", "0").fails(unix.ERANGE),
		write("v2/a/cpu.weight", "10001").fails(unix.ERANGE),
		write("v2/a/cpu.weight", "x").fails(unix.EINVAL),
		write("v2/a/cpu.weight", "10000"),
		read("v2/a/cpu.weight", "10000\n"),
		write("v2/a/cpu.weight", "1"),
		read("v2/a/cpu.weight", "1\n"),
		read("v2/a/cpu.max", "max 100000\n"),
		write("v2/a/cpu.max", "50000"),
		read("v2/a/cpu.max", "50000 100000\n"),
		write("v2/a/cpu.max", "max 200000"),
		read("v2/a/cpu.max", "max 200000\n"),
		write("v2/a/cpu.max", "999").fails(unix.EINVAL),
		write("v2/a/cpu.max", "5000 1000001").fails(unix.EINVAL),
		write("v2/a/cpu.max", "x").fails(unix.EINVAL),
		write("v2/a/cgroup.subtree_control", "+cpu"),
		mkdir("v2/a/b"),
		write("v2/a/cpu.max", "50000 100000"),
		write("v2/a/b/cpu.max", "80000 100000"), // taken: the parent's counts
		contains("v2/a/cpu.stat", "\nnr_throttled 0\nthrottled_usec 0\n"),
	}},
	{"cpuset", []step{
		mkdir("v2/a"),
		write("v2/a/cgroup.subtree_control", "+cpuset"),
		mkdir("v2/a/b"),
		read("v2/a/cpuset.cpus", "\n"),
		read("v2/a/cpuset.cpus.effective", "0-"+strconv.Itoa(here.CPUs-1)+"\n"),
		write("v2/a/cgroup.subtree_control", "+cpuset"),
		write("v2/a/cpuset.cpus", "1"),
		read("v2/a/cpuset.cpus", "1\n"),
		read("v2/a/cpuset.cpus.effective", "1\n"),
		read("v2/a/b/cpuset.cpus.effective", "1\n"),
		write("v2/a/b/cpuset.cpus", "0-1"), // taken, where v1 says EACCES
		read("v2/a/b/cpuset.cpus", "0-1\n"),
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
	{"pids", []step{
		mkdir("v2/a"),
		write("v2/a/cgroup.subtree_control", "+pids"),
		mkdir("v2/a/b"),
		read("v2/a/pids.max", "max\n"),
		write("v2/a/pids.max", "-1").fails(unix.EINVAL),
		write("v2/a/b/cgroup.procs", "$p"),
		write("v2/a/pids.max", "1"),
		fork("p", "c").fails(unix.EAGAIN),
		where("v2/a/pids.events.local", between("v2/a/pids.events", "max", 1, 1e9)),
		where("v2/a/pids.events.local", between("v2/a/pids.events.local", "max", 1, 1e9)),
		where("v2/a/pids.events.local", read("v2/a/b/pids.events", "max 0\n")), // its own limit was not the cause
		before("v2/a/pids.events.local", read("v2/a/pids.events", "max 0\n")),
		before("v2/a/pids.events.local", between("v2/a/b/pids.events", "max", 1, 1e9)),
	}},
}

var v2Needs = []string{"cpuset", "cpu", "io", "memory", "pids"}

func TestRulesV2(t *testing.T) {
	enable := func(t *testing.T, w *world, file string) {
		for _, c := range v2Needs {
			if err := w.cgroup.Write(file, "+"+c); err != nil {
				t.Fatal(err)
			}
		}
	}
	fake := func(t *testing.T) *world {
		w := fakeV2(t)
		enable(t, w, "cgroup.subtree_control")
		return w
	}
	old := func(t *testing.T) *world {
		w := fakeWorld(NewV2(On(here), Without("pids.events.local", "memory.peak", "pids.peak", "cgroup.kill")), ".")
		enable(t, w, "cgroup.subtree_control")
		return w
	}
	kernel := func(t *testing.T) *world { return realWorld(NeedV2(t, v2Needs...)) }
	for name, open := range map[string]func(*testing.T) *world{"fake": fake, "old fake": old, "kernel": kernel} {
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
