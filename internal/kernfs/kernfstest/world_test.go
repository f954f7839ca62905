package kernfstest

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// world is a kernel that a rule is tried on.
type world struct {
	cgroup *kernfs.FS
	dir    string         // of the test in each hierarchy
	v2     string         // the mount that "v2" in a step stands for
	pids   map[string]int // the rule's processes
	processes
}

// processes makes and moves them: a Kernel, or the real one.
type processes interface {
	start(t *testing.T) int
	end(pid int)                    // and reap
	zombie(t *testing.T, pid int)   // end, and do not reap
	kill(pid int)                   // SIGKILL; someone reaps
	charge(pid int, m Memory) error // ESRCH when it was killed over it
	fork(pid int) (int, error)
}

// v2 is where the v2 tree is mounted.
func fakeWorld(k *Kernel, v2 string) *world {
	return &world{cgroup: k.Roots().Cgroup, dir: "rules", v2: v2, processes: fakeProcesses{k}}
}

type fakeProcesses struct{ k *Kernel }

func (f fakeProcesses) start(*testing.T) int         { return f.k.Spawn() }
func (f fakeProcesses) end(pid int)                  { f.k.Exit(pid) }
func (f fakeProcesses) zombie(_ *testing.T, pid int) { f.k.Zombie(pid) }
func (f fakeProcesses) kill(pid int)                 { f.k.Signal(pid, unix.SIGKILL) }
func (f fakeProcesses) fork(pid int) (int, error)    { return f.k.Fork(pid) }

func (f fakeProcesses) charge(pid int, m Memory) error {
	if slices.Contains(f.k.Charge(pid, m), pid) {
		return unix.ESRCH
	}
	return nil
}

func realWorld(roots kernfs.Roots, v2 string) *world {
	return &world{
		cgroup:    roots.Cgroup,
		dir:       fmt.Sprintf("hhtest_kernfstest_%d", os.Getpid()),
		v2:        v2,
		processes: realProcesses{},
	}
}

// realProcesses are actors, by their ids.
type realProcesses map[int]*actor

func (r realProcesses) start(t *testing.T) int {
	a := startActor(t)
	r[a.cmd.Process.Pid] = a
	return a.cmd.Process.Pid
}

func (r realProcesses) end(pid int) {
	if a := r[pid]; a != nil {
		a.cmd.Process.Kill()
		a.reap()
		delete(r, pid)
	}
}

func (r realProcesses) zombie(t *testing.T, pid int) {
	r[pid].cmd.Process.Kill()
	// WNOWAIT leaves it to be reaped later.
	must.NoError(t, unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
}

func (r realProcesses) kill(pid int) {
	a := r[pid]
	a.cmd.Process.Kill()
	go a.reap()
}

func (r realProcesses) charge(pid int, m Memory) error {
	_, err := r[pid].do(order{Charge: m})
	return err
}

func (r realProcesses) fork(pid int) (int, error) {
	a, err := r[pid].do(order{Fork: true})
	return a.Child, err
}

// file is the name of a step's file: the controller's mount, the test's directory, the rest.
func (w *world) file(p string) string {
	controller, rest, _ := strings.Cut(p, "/")
	if controller == "v2" {
		controller = w.v2
	}
	return path.Join(controller, w.dir, rest)
}

// expand puts the id of a process for "$name", which it starts when the rule has not named it
// before.
func (w *world) expand(t *testing.T, value string) string {
	name, ok := strings.CutPrefix(value, "$")
	if !ok {
		return value
	}
	text := strings.TrimRight(name, "\n")
	return strconv.Itoa(w.pid(t, text)) + name[len(text):]
}

func (w *world) pid(t *testing.T, name string) int {
	if w.pids[name] == 0 {
		w.pids[name] = w.start(t)
	}
	return w.pids[name]
}

// begin makes the test's own cgroup in every hierarchy and sees to its end.
func (w *world) begin(t *testing.T, controllers ...string) {
	t.Helper()
	w.pids = map[string]int{}
	t.Cleanup(func() {
		for _, pid := range w.pids {
			w.end(pid)
		}
		for _, c := range controllers {
			w.remove(t, w.file(c))
		}
	})
	for _, c := range controllers {
		if err := w.cgroup.Mkdir(w.file(c)); err != nil && !errors.Is(err, unix.EEXIST) {
			t.Fatal(err)
		}
		if c == "cpuset" {
			for name, all := range map[string]string{"cpuset.cpus": here.online().String(),
				"cpuset.mems": here.nodes().String()} {
				must.NoError(t, w.cgroup.Write(w.file("cpuset/"+name), all))
			}
		}
	}
}

// remove waits for processes that were killed a moment ago to leave.
func (w *world) remove(t *testing.T, dir string) {
	children, err := w.cgroup.Dirs(dir)
	if err != nil {
		return // co-mounted, and gone already
	}
	for _, c := range children {
		w.remove(t, path.Join(dir, c))
	}
	await(func() bool { err = w.cgroup.Rmdir(dir); return !errors.Is(err, unix.EBUSY) })
	if err != nil {
		t.Errorf("clean up: %v", err)
	}
}

// await asks again for a while: the kernel announces most things to nobody.
func await(ok func() bool) bool {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// here is a fake machine with the cpus and nodes of the real one, so that both print the same
// lists.
var here = func() Machine {
	m := Machine{CPUs: 2, Threads: 1, NUMA: 1, Mem: 16 << 30}
	sys, err := kernfs.Open("/sys")
	if err != nil {
		return m
	}
	if cpus, err := sys.IDSet("devices/system/cpu/possible"); err == nil {
		m.CPUs = cpus.Len()
	}
	if nodes, err := sys.IDSet("devices/system/node/online"); err == nil {
		m.NUMA = nodes.Len()
	}
	return m
}()
