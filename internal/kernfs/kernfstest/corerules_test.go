package kernfstest

import "golang.org/x/sys/unix"

var coreRules = []rule{
	{"directories", []step{
		mkdir("v2/a"),
		mkdir("v2/a").fails(unix.EEXIST),
		mkdir("v2/a/b"),
		mkdir("v2/a/cgroup.procs").fails(unix.EEXIST),
		rmdir("v2/a").fails(unix.EBUSY),
		rmdir("v2/a/cgroup.procs").fails(unix.ENOTDIR),
		read("v2/a/memory.max", "").fails(unix.ENOENT),
		read("v2/a/cgroup.controllers", ""),
		read("v2/a/cgroup.subtree_control", ""),
		read("v2/a/cgroup.type", "domain\n"),
	}},
	{"processes", []step{
		mkdir("v2/a"),
		read("v2/a/cgroup.events", "populated 0\nfrozen 0\n"),
		write("v2/a/cgroup.procs", "$p"),
		read("v2/a/cgroup.procs", "$p\n"),
		read("v2/a/cgroup.events", "populated 1\nfrozen 0\n"),
		read("v2/cgroup.events", "populated 1\nfrozen 0\n"),
		rmdir("v2/a").fails(unix.EBUSY),
		mkdir("v2/a/b"),
		write("v2/a/b/cgroup.procs", "$p"),
		read("v2/a/cgroup.procs", ""),
		read("v2/a/cgroup.events", "populated 1\nfrozen 0\n"),
		write("v2/a/cgroup.threads", "$p").fails(unix.EOPNOTSUPP),
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
		write("v2/a/cgroup.subtree_control", "\n"),
	}},
	{"freeze", []step{
		mkdir("v2/a"),
		read("v2/a/cgroup.freeze", "0\n"),
		write("v2/a/cgroup.freeze", "2").fails(unix.ERANGE),
		write("v2/a/cgroup.freeze", "-1").fails(unix.ERANGE),
		write("v2/a/cgroup.freeze", "x").fails(unix.EINVAL),
		write("v2/a/cgroup.freeze", "1"),
		read("v2/a/cgroup.freeze", "1\n"),
		read("v2/a/cgroup.events", "populated 0\nfrozen 1\n"),
		mkdir("v2/a/b"),
		read("v2/a/b/cgroup.freeze", "0\n"),
		read("v2/a/b/cgroup.events", "populated 0\nfrozen 1\n"),
		write("v2/a/cgroup.freeze", "0"),
		read("v2/a/b/cgroup.events", "populated 0\nfrozen 0\n"),
	}},
	{"kill", []step{ // cgroup.kill: 5.14
		mkdir("v2/a"),
		where("v2/a/cgroup.kill", read("v2/a/cgroup.kill", "").fails(unix.EINVAL)),
		where("v2/a/cgroup.kill", write("v2/a/cgroup.kill", "0").fails(unix.ERANGE)),
		where("v2/a/cgroup.kill", write("v2/a/cgroup.kill", "x").fails(unix.EINVAL)),
		where("v2/a/cgroup.kill", write("v2/a/cgroup.kill", "1")),
	}},
	{"bounds", []step{
		mkdir("v2/a"),
		write("v2/a/cgroup.max.descendants", "1"),
		mkdir("v2/a/b"),
		mkdir("v2/a/c").fails(unix.EAGAIN),
		mkdir("v2/a/b/c").fails(unix.EAGAIN),
		write("v2/a/cgroup.max.descendants", "max"),
		write("v2/a/cgroup.max.depth", "1"),
		mkdir("v2/a/b/c").fails(unix.EAGAIN),
		mkdir("v2/a/c"),
		write("v2/a/cgroup.max.depth", "-1").fails(unix.ERANGE),
		write("v2/a/cgroup.max.depth", "x").fails(unix.EINVAL),
		contains("v2/a/cgroup.stat", "nr_descendants 2\n"),
	}},
	{"core values", []step{
		mkdir("v2/a"),
		contains("v2/a/cpu.stat", "usage_usec 0\nuser_usec 0\nsystem_usec 0\n"),
		where("v2/a/cgroup.stat.local", read("v2/a/cpu.stat", "usage_usec 0\nuser_usec 0\nsystem_usec 0\nnice_usec 0\n")), // nice_usec: 6.13
		where("v2/a/cpu.stat.local", read("v2/a/cpu.stat.local", "")),                                                     // 6.7
		where("v2/a/cgroup.stat.local", read("v2/a/cgroup.stat.local", "frozen_usec 0\n")),                                // 6.18
		read("v2/a/memory.pressure", noPressure),
	}},
}

// coreProcessRules need processes; a real one takes a moment to freeze and to die.
var coreProcessRules = []rule{
	{"freezing processes", []step{
		mkdir("v2/a"),
		mkdir("v2/a/b"),
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
		burn("q", "10ms"),
		write("v2/a/cgroup.freeze", "0"),
		awaits("v2/a/cgroup.events", "populated 0\nfrozen 0\n"),
	}},
	{"cgroup.kill", []step{
		mkdir("v2/a"),
		mkdir("v2/a/b"),
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
	{"cpu time", []step{
		mkdir("v2/a"),
		mkdir("v2/a/b"),
		write("v2/a/b/cgroup.procs", "$p"),
		burn("p", "200ms"),
		between("v2/a/b/cpu.stat", "usage_usec", 190e3, 2e6),
		between("v2/a/cpu.stat", "usage_usec", 190e3, 2e6),
		between("v2/a/cpu.stat", "user_usec", 0, 2e6), // the ticks' share, and they may all fall to the system
		exit("p"),
		between("v2/a/cpu.stat", "usage_usec", 190e3, 2e6),
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
