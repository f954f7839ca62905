package devrule

// Base returns what every job may open, in the form of Resolve. Most of the names do not exist on
// most nodes, which is not an error.
//
// A job that may open a device may also create a node for it (m). Installing a system into a
// directory needs null and zero there.
//
// No rule lets a job create nodes for all devices, which runc and systemd allow. Only root can do
// that anyway: a process in a user namespace cannot, and fakeroot only pretends. Such a node would
// remain, and somebody without a filter could open it.
//
// These are deliberately left out: console and the virtual terminals, mem, port, kmsg, cpu/*/msr,
// disks, loop devices, net/tun, kvm, cuse, vfio and watchdogs. So are infiniband/umad* and issm*,
// which manage the fabric, and all devices that are given to individual jobs.
func Base(fuse bool) []any {
	list := []any{
		"c 1:3 rwm", // null
		"c 1:5 rwm", // zero
		"c 1:7 rwm", // full
		"c 1:8 rwm", // random
		"c 1:9 rwm", // urandom
		"c 5:0 rwm", // tty: the process's terminal; interactive jobs have one
		"c 5:2 rwm", // ptmx: a new terminal, for ssh, screen and expect

		// pts/*: the other ends of these terminals. They have eight majors
		// (UNIX98_PTY_SLAVE_MAJOR).
		"c 136:* rwm", "c 137:* rwm", "c 138:* rwm", "c 139:* rwm", "c 140:* rwm", "c 141:* rwm", "c 142:* rwm",
		"c 143:* rwm",

		// Networks, and shared memory between the processes of an MPI program. Their majors are
		// assigned when drivers are loaded. Each is designed to be shared by unrelated users, and
		// by default all users may open it.
		[]any{"infiniband/uverbs*", "rwm"}, // verbs: InfiniBand, RoCE, EFA
		[]any{"infiniband/rdma_cm", "rwm"}, // verbs connections by IP address
		[]any{"hfi1_[0-9]*", "rwm"},        // Omni-Path
		[]any{"cxi[0-9]*", "rwm"},          // Slingshot
		[]any{"knem", "rwm"},               // copies between processes
		[]any{"xpmem", "rwm"},              // access to another process's memory
		[]any{"ss0", "rwm"},                // Spectrum Scale (GPFS): its library uses it to query the file system
	}
	if fuse {
		// Users' file systems: apptainer's images, sshfs. The job's processes serve them.
		list = append(list, "c 10:229 rwm")
	}
	return list
}
