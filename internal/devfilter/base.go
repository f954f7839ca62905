package devfilter

// Base returns what every job may open, in the form of Resolve. Names that are not there (most of
// them, on most nodes) are no fault of the node.
//
// A job that may open a device may also make a node of it (m). An installation in a directory of
// root's needs null and zero there.
//
// No rule lets a job make nodes of all devices, which runc and systemd allow. Only root may do that
// at all: a process in a user namespace may not, and fakeroot pretends. Such a node would be left
// behind for somebody whom no filter stops.
//
// These are left out on purpose: console and the virtual terminals, mem, port, kmsg, cpu/*/msr,
// disks, loop devices, net/tun, kvm, cuse, vfio and watchdogs. So are infiniband/umad* and issm*,
// which manage the fabric, and all that jobs are given one by one.
func Base(fuse bool) []any {
	list := []any{
		"c 1:3 rwm", // null
		"c 1:5 rwm", // zero
		"c 1:7 rwm", // full
		"c 1:8 rwm", // random
		"c 1:9 rwm", // urandom
		"c 5:0 rwm", // tty: whichever terminal the process has, and interactive jobs have one
		"c 5:2 rwm", // ptmx: a new terminal, for ssh, screen and expect

		// pts/*: the other ends of those terminals. There are eight majors for them
		// (UNIX98_PTY_SLAVE_MAJOR).
		"c 136:* rwm", "c 137:* rwm", "c 138:* rwm", "c 139:* rwm", "c 140:* rwm", "c 141:* rwm", "c 142:* rwm",
		"c 143:* rwm",

		// Networks, and shared memory between the processes of an MPI program. Their majors are
		// given out as drivers load. Each is made to be shared by users that know nothing of each
		// other, and by default open to all of them.
		[]any{"infiniband/uverbs*", "rwm"}, // verbs: InfiniBand, RoCE, EFA
		[]any{"infiniband/rdma_cm", "rwm"}, // connections of verbs by IP address
		[]any{"hfi1_[0-9]*", "rwm"},        // Omni-Path
		[]any{"cxi[0-9]*", "rwm"},          // Slingshot
		[]any{"knem", "rwm"},               // copies from one process to another
		[]any{"xpmem", "rwm"},              // memory of one process in another
		[]any{"ss0", "rwm"},                // Spectrum Scale (GPFS): its library asks the file system by it
	}
	if fuse {
		// A file system of the user's own: apptainer's images, sshfs. The job's own processes serve
		// it.
		list = append(list, "c 10:229 rwm")
	}
	return list
}
