package kernfstest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// firstPID is above PID_MAX_LIMIT (4194304), which no real process id exceeds.
const firstPID = 5_000_000

// process is a process with one thread.
type process struct {
	pid, ppid, pgid, sid, uid int
	comm, environ             string
	start                     uint64 // jiffies
	cpuTime                   time.Duration
	in                        map[*hierarchy]*cgroup
	held                      map[*cgroup]*held // private memory, by the cgroup to which it is charged
	shmem                     int64
	zombie, stuck, starved    bool
	dying                     bool // it got SIGKILL while it could not die
}

// Spawn starts a process in the named cgroups, and in the root of every other hierarchy. Each name
// is a directory below /sys/fs/cgroup ("memory/pbs_jobs/1", or "job" on v2). The process is a child
// of init and the leader of a new session. Spawn panics if a cgroup does not exist or refuses the
// process.
func (k *Kernel) Spawn(cgroups ...string) (pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.wake()
	p := k.start(k.procs[1], "job")
	p.sid, p.pgid = p.pid, p.pid
	for _, name := range cgroups {
		t, err := k.find(name)
		if err == nil && (t.group == nil || t.knob != nil) {
			err = unix.ENOTDIR
		}
		if err == nil {
			err = t.group.migrate(p)
		}
		if err != nil {
			panic(fmt.Sprintf("spawn in %s: %v", name, err))
		}
	}
	return p.pid
}

// Fork starts a child of pid in pid's cgroups and session. It fails with EAGAIN above pids.max, and
// with ESRCH if pid does not exist.
func (k *Kernel) Fork(pid int) (child int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.wake()
	parent, ok := k.procs[pid]
	if !ok || parent.zombie {
		return 0, unix.ESRCH
	}
	if err := parent.mayFork(); err != nil {
		return 0, err
	}
	p := k.start(parent, parent.comm)
	return p.pid, nil
}

// start creates a process where its parent is.
func (k *Kernel) start(parent *process, comm string) *process {
	k.lastPID++
	k.clock += 3
	p := &process{
		pid: k.lastPID, ppid: parent.pid, pgid: parent.pgid, sid: parent.sid, uid: parent.uid,
		comm: comm, environ: parent.environ, start: k.clock, in: maps.Clone(parent.in), held: map[*cgroup]*held{},
	}
	k.procs[p.pid] = p
	for _, g := range p.in {
		g.procs[p.pid] = p
		g.pidsChanged()
	}
	return p
}

// Exit ends a process and reaps it. It does nothing if the process no longer exists.
func (k *Kernel) Exit(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.wake()
	if p, ok := k.procs[pid]; ok {
		k.reap(p)
	}
}

// Zombie ends a process whose parent does not wait for it; Exit reaps it. The process leaves
// cgroup.procs at once. It still has its pid, so pids.current counts it (pids_release runs in
// release_task).
func (k *Kernel) Zombie(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.wake()
	if p, ok := k.procs[pid]; ok {
		k.die(p)
	}
}

// Stick makes a process uninterruptible until Unstick: it neither dies of SIGKILL nor freezes.
func (k *Kernel) Stick(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.wake()
	k.procs[pid].stuck = true
}

// Starve leaves a process without a cpu until Unstick, so it does not die of SIGKILL either.
func (k *Kernel) Starve(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.wake()
	k.procs[pid].starved = true
}

// Unstick ends Stick and Starve. If the process got SIGKILL in the meantime, it dies now.
func (k *Kernel) Unstick(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.wake()
	if p, ok := k.procs[pid]; ok {
		p.stuck, p.starved = false, false
		k.settle(p)
	}
}

// Signal is kill(2) on a fake process. SIGKILL and SIGTERM end it, 0 tests whether it exists, and
// other signals do nothing. It fails with ESRCH if the process does not exist.
func (k *Kernel) Signal(pid int, sig syscall.Signal) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.procs[pid]
	if !ok {
		return unix.ESRCH
	}
	if sig == unix.SIGKILL || sig == unix.SIGTERM {
		defer k.wake()
		k.kill(p)
	}
	return nil
}

// Pids returns the living processes that Spawn and Fork have started, in order.
func (k *Kernel) Pids() []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	var pids []int
	for _, pid := range slices.Sorted(maps.Keys(k.procs)) {
		if p := k.procs[pid]; pid != 1 && pid != k.self && !p.zombie {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Attributes are what /proc shows about a process and the fake does not derive from its calls.
type Attributes struct {
	Comm    string
	UID     int
	Session int // OutsideSession if it began outside the pid namespace
	Environ []string
}

// OutsideSession is a session that /proc shows as 0.
const OutsideSession = -1

// SetProcess changes what /proc shows about pid. Fields with zero values are unchanged.
func (k *Kernel) SetProcess(pid int, a Attributes) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.procs[pid]
	p.comm = cmp.Or(a.Comm, p.comm)
	p.uid = cmp.Or(a.UID, p.uid)
	p.sid = max(0, cmp.Or(a.Session, p.sid))
	if a.Environ != nil {
		p.environ = strings.Join(a.Environ, "\x00") + "\x00"
	}
}

// Cgroup returns the cgroups of pid in the form of /proc/PID/cgroup.
func (k *Kernel) Cgroup(pid int) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.procs[pid]
	if !ok {
		return ""
	}
	return p.cgroupFile()
}

// kill delivers SIGKILL, which init ignores (SIGNAL_UNKILLABLE in kernel/signal.c).
func (k *Kernel) kill(p *process) {
	if p.pid == 1 {
		return
	}
	p.dying = true
	k.settle(p)
}

// settle lets a killed process die as soon as nothing prevents it. In the v1 freezer a task gets
// signals when it is thawed (cgroup-v1/freezer-subsystem.rst). Under cgroup.freeze it dies at once
// (cgroup-v2.rst).
func (k *Kernel) settle(p *process) {
	if p.dying && !p.stuck && !p.starved && !p.frozenV1() {
		k.reap(p)
	}
}

func (k *Kernel) die(p *process) {
	if p.zombie {
		return
	}
	p.zombie = true
	p.release()
	for _, c := range k.procs {
		if c.ppid == p.pid {
			c.ppid = 1
		}
	}
}

func (k *Kernel) reap(p *process) {
	k.die(p)
	for _, g := range p.in {
		delete(g.procs, p.pid)
	}
	delete(k.procs, p.pid)
}

// state returns the letter in /proc/PID/stat.
func (p *process) state() byte {
	switch {
	case p.zombie:
		return 'Z'
	case p.stuck:
		return 'D'
	case p.starved:
		return 'R'
	}
	return 'S'
}

func (p *process) cgroupFile() string {
	hs := slices.SortedFunc(maps.Keys(p.in), func(a, b *hierarchy) int { return b.id - a.id })
	var b strings.Builder
	for _, h := range hs {
		dir := p.in[h].path()
		if p.in[h].removed {
			dir += " (deleted)"
		}
		fmt.Fprintf(&b, "%d:%s:%s\n", h.id, strings.Join(h.controllers1(), ","), dir)
	}
	return b.String()
}

// controllers1 returns the controllers by their v1 names, or none for the v2 tree.
func (h *hierarchy) controllers1() []string {
	if h.v2 {
		return nil
	}
	return h.controllers
}
