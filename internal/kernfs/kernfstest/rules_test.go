package kernfstest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A rule is a few steps that every kernel answers alike. The same table is run on the fake and on
// the running kernel, so that the fake cannot drift.
type rule struct {
	name  string
	steps []step
}

// step is one operation and what comes of it. A path is CONTROLLER/REST below the test's own cgroup
// there. "$p" as a value is the id of the process p, which is started where it is first named.
type step struct {
	op    string
	path  string // for what processes do: the process
	value string // to write, or to be read
	errno unix.Errno
	later bool // asked again until it is so
	// A file, and whether only kernels with it make the step or only those without.
	file    string
	without bool
}

// where is a step that only kernels with the file make; on others the rule does not hold.
func where(file string, s step) step { s.file = file; return s }

// before is a step that only kernels make that do not have the file yet.
func before(file string, s step) step { s.file, s.without = file, true; return s }

func mkdir(path string) step           { return step{op: "mkdir", path: path} }
func rmdir(path string) step           { return step{op: "rmdir", path: path} }
func write(path, value string) step    { return step{op: "write", path: path, value: value} }
func read(path, want string) step      { return step{op: "read", path: path, value: want} }
func contains(path, want string) step  { return step{op: "contains", path: path, value: want} }
func (s step) fails(e unix.Errno) step { s.errno = e; return s }

// later is a step that comes true in the kernel's own time.
func later(s step) step             { s.later = true; return s }
func awaits(path, want string) step { return later(contains(path, want)) }
func awaitsEmpty(path string) step  { return later(read(path, "")) }

// between wants a number; key is one of a flat-keyed file, or "" where the number is all of it.
func between(path, key string, low, high int64) step {
	return step{op: "between", path: path, value: fmt.Sprint(key, ":", low, ":", high)}
}

func exit(p string) step        { return step{op: "exit", path: p} }
func zombie(p string) step      { return step{op: "zombie", path: p} }
func kill(p string) step        { return step{op: "kill", path: p} }
func fork(p, child string) step { return step{op: "fork", path: p, value: child} }
func anon(p string, mb int64) step {
	return step{op: "anon", path: p, value: strconv.FormatInt(mb, 10)}
}

func shmem(p string, mb int64) step {
	return step{op: "shmem", path: p, value: strconv.FormatInt(mb, 10)}
}

func (w *world) check(t *testing.T, r rule) {
	t.Helper()
	for i, s := range r.steps {
		if s.file != "" && w.cgroup.Exists(w.file(s.file)) == s.without {
			continue
		}
		err := w.run(t, s)
		if s.later {
			await(func() bool { err = w.run(t, s); return err == nil })
		}
		if s.errno == 0 && err != nil || s.errno != 0 && !errors.Is(err, s.errno) {
			t.Fatalf("step %d: %s %s %q: got %v, want errno %d", i, s.op, s.path, s.value, err, s.errno)
		}
	}
}

func (w *world) run(t *testing.T, s step) error {
	switch s.op {
	case "mkdir":
		return w.cgroup.Mkdir(w.file(s.path))
	case "rmdir":
		return w.cgroup.Rmdir(w.file(s.path))
	case "write":
		return w.cgroup.Write(w.file(s.path), w.expand(t, s.value))
	case "read", "contains", "between":
		return w.compare(t, s)
	}
	return w.move(t, s)
}

// move is a step that a process makes.
func (w *world) move(t *testing.T, s step) error {
	pid := w.pid(t, s.path)
	mb, _ := strconv.ParseInt(s.value, 10, 64) // 0 where the step has none
	switch s.op {
	case "exit":
		w.end(pid)
	case "zombie":
		w.zombie(t, pid)
	case "kill":
		w.kill(pid)
	case "fork":
		child, err := w.fork(pid)
		if err == nil {
			w.pids[s.value] = child
		}
		return err
	case "anon":
		return w.charge(pid, Memory{Anon: mb << 20})
	case "shmem":
		return w.charge(pid, Memory{Shmem: mb << 20})
	default:
		return fmt.Errorf("no such step")
	}
	return nil
}

func (w *world) compare(t *testing.T, s step) error {
	b, err := w.cgroup.ReadFile(w.file(s.path))
	if err != nil {
		return err
	}
	got, want := string(b), w.expand(t, s.value)
	switch s.op {
	case "read":
		if got != want {
			return fmt.Errorf("read %q", got)
		}
	case "between":
		return inRange(got, want)
	default:
		if !strings.Contains(got, want) {
			return fmt.Errorf("read %q", got)
		}
	}
	return nil
}

func inRange(text, want string) error {
	parts := strings.Split(want, ":")
	low, _ := strconv.ParseInt(parts[1], 10, 64)
	high, _ := strconv.ParseInt(parts[2], 10, 64)
	for l := range strings.Lines(text) {
		fields := strings.Fields(l)
		if len(fields) == 1 && parts[0] == "" || len(fields) == 2 && fields[0] == parts[0] {
			n, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
			if err != nil || n < low || n > high {
				return fmt.Errorf("read %q", l)
			}
			return nil
		}
	}
	return fmt.Errorf("no %q in %q", parts[0], text)
}

// try runs the rules on each kernel.
func try(t *testing.T, rules []rule, kernels map[string]func(*testing.T) *world, controllers ...string) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for name, open := range kernels {
				t.Run(name, func(t *testing.T) {
					w := open(t)
					w.begin(t, controllers...)
					w.check(t, r)
				})
			}
		})
	}
}

var v1Controllers = []string{"cpu", "cpuacct", "cpuset", "memory", "freezer", "pids", "devices", "blkio"}

func fakeV1(*testing.T) *world     { return fakeWorld(NewV1(On(here)), "") }
func fakeHybrid(*testing.T) *world { return fakeWorld(NewHybrid(On(here)), "unified") }
func fakeV2(*testing.T) *world     { return fakeWorld(NewV2(On(here)), ".") }
func kernelV1(t *testing.T) *world { return realWorld(NeedV1(t, v1Controllers...), "") }

func kernelV2(t *testing.T) *world {
	roots, dir := NeedV2(t)
	return realWorld(roots, dir)
}

func kernelHybrid(t *testing.T) *world {
	NeedV1(t, "freezer")
	return kernelV2(t)
}

func TestRulesV1(t *testing.T) {
	try(t, v1Rules,
		map[string]func(*testing.T) *world{"fake v1": fakeV1, "fake hybrid": fakeHybrid, "kernel": kernelV1},
		v1Controllers...)
}

// TestRulesCore is the part of v2 that a tree without controllers has.
func TestRulesCore(t *testing.T) {
	try(t, coreRules,
		map[string]func(*testing.T) *world{"fake hybrid": fakeHybrid, "fake v2": fakeV2, "kernel": kernelV2}, "v2")
}

func TestRulesHybrid(t *testing.T) {
	try(t, bothRules, map[string]func(*testing.T) *world{"fake": fakeHybrid, "kernel": kernelHybrid}, "v2", "freezer")
}
