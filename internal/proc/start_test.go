package proc

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// output starts cmd, waits for it and returns its standard output.
func output(t testing.TB, cmd *Spec, join hostapi.Join) (string, Exit) {
	t.Helper()
	r, w, err := os.Pipe()
	must.NoError(t, err)
	defer r.Close()
	cmd.Stdout = w
	child, err := Start(cmd, join)
	w.Close()
	must.NoError(t, err)
	b, err := io.ReadAll(r)
	must.NoError(t, err)
	exit, err := child.Wait(t.Context())
	must.NoError(t, err)
	return string(b), exit
}

func cat(files ...string) *Spec {
	return &Spec{Path: "/bin/cat", Args: append([]string{"cat"}, files...)}
}

func TestStartInside(t *testing.T) {
	join := jobCgroup(t, "inside")
	tests := []struct {
		name string
		join hostapi.Join
	}{
		{"v1", hostapi.Join{Tasks: join.Tasks}},
		{"v2", hostapi.Join{CgroupDir: join.CgroupDir}},
		{"hybrid", join},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name != "v2" {
				kernfstest.NeedV1(t, v1Controllers...)
			}
			if tt.name != "v1" {
				kernfstest.NeedV2(t)
			}
			before, err := os.ReadFile("/proc/self/cgroup")
			must.NoError(t, err)
			text, exit := output(t, cat("/proc/self/cgroup"), tt.join)
			if exit.Code() != 0 {
				t.Fatalf("exit status %d", exit.Code())
			}
			expect := cgroups(string(before))
			for h, path := range want(join) {
				if h == "" && tt.join.CgroupDir != "" || h != "" && tt.join.Tasks != nil {
					expect[h] = path
				}
			}
			must.Equal(t, "cgroups of the child", expect, cgroups(text))
			for tid, text := range threads(t) {
				if text != string(before) {
					t.Errorf("own thread %d is in\n%swant\n%s", tid, text, before)
				}
			}
			if pid := syscall.Getpid(); strings.Contains(members(t, tt.join), "\n"+strconv.Itoa(pid)+"\n") {
				t.Errorf("own pid %d is listed in the job's cgroup.procs", pid)
			}
		})
	}
}

// members returns the text of every cgroup.procs of join, each pid on a line.
func members(t testing.TB, join hostapi.Join) string {
	var all strings.Builder
	dirs := []string{}
	for _, tasks := range join.Tasks {
		dirs = append(dirs, filepath.Dir(tasks))
	}
	if join.CgroupDir != "" {
		dirs = append(dirs, join.CgroupDir)
	}
	for _, dir := range dirs {
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		must.NoError(t, err)
		all.WriteString("\n" + string(b))
	}
	return all.String()
}

func TestStartInParallel(t *testing.T) {
	const n = 100
	before, err := os.ReadFile("/proc/self/cgroup")
	must.NoError(t, err)
	join := jobCgroup(t, "parallel")
	expect := cgroups(string(before))
	for h, path := range want(join) {
		expect[h] = path
	}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			text, exit := output(t, cat("/proc/self/cgroup"), join)
			if diff := cmp.Diff(expect, cgroups(text)); diff != "" || exit.Code() != 0 {
				t.Errorf("exit status %d, cgroups of the child (-want +got):\n%s", exit.Code(), diff)
			}
		})
	}
	wg.Wait()
	for tid, text := range threads(t) {
		if text != string(before) {
			t.Errorf("own thread %d is in\n%swant\n%s", tid, text, before)
		}
	}
	if text := strings.TrimSpace(members(t, join)); text != "" {
		t.Errorf("left in the job's cgroup: %q", text)
	}
}

func TestStartProgram(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.Chmod(dir, 0o755))
	t.Chdir(dir)
	tests := []struct {
		name string
		cmd  Spec
		want string
		code int
	}{
		{"arguments", Spec{Path: "/bin/echo", Args: []string{"echo", "a b", ""}}, "a b \n", 0},
		{"environment is the whole one", Spec{Path: "/usr/bin/env", Args: []string{"env"},
			Env: []string{"A=1", "B=x y"}}, "A=1\nB=x y\n", 0},
		{"directory is the caller's", Spec{Path: "/bin/pwd", Args: []string{"pwd"}}, dir + "\n", 0},
		{"exit status", Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "exit 7"}}, "", 7},
		{"signal", Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "kill -9 $$"}}, "", 137},
		{"owner", Spec{Path: "/usr/bin/id", Args: []string{"id", "-u", "-r"},
			Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, "65534\n", 0},
		{"own session and group", Spec{Path: "/bin/sh", Args: []string{
			"sh", "-c", `read -r s < /proc/$$/stat; set -- $s; [ $1 = $5 ] && [ $1 = $6 ] && echo leader`}}, "leader\n",
			0},
		{"nil stdin is empty", Spec{Path: "/bin/cat", Args: []string{"cat"}}, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.cmd.Credential != nil {
				kernfstest.NeedRoot(t)
			}
			got, exit := output(t, &tt.cmd, hostapi.Join{})
			if got != tt.want || exit.Code() != tt.code {
				t.Errorf("output %q, exit status %d; want %q, %d", got, exit.Code(), tt.want, tt.code)
			}
		})
	}
}

func TestStartKeepsDescriptors(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must.NoError(t, err)
	defer f.Close()
	var ours, theirs unix.Stat_t
	must.NoError(t, unix.Fstat(int(f.Fd()), &ours))
	child, err := Start(&Spec{Path: "/usr/bin/stat", Args: []string{"stat", "-L", "-c", "%i", "/proc/self/fd/1"},
		Stdout: f}, hostapi.Join{})
	must.NoError(t, err)
	if _, err := child.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Name())
	must.NoError(t, err)
	if err := unix.Stat(f.Name(), &theirs); err != nil || strings.TrimSpace(string(b)) != strconv.Itoa(int(ours.Ino)) {
		t.Errorf("the child's stdout is inode %q, want %d (%v)", b, ours.Ino, err)
	}
}

func TestStartErrors(t *testing.T) {
	join := jobCgroup(t, "errors")
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	must.NoError(t, os.WriteFile(plain, []byte("no program\n"), 0o644))
	garbage := filepath.Join(dir, "garbage")
	must.NoError(t, os.WriteFile(garbage, []byte{0x7f, 'E', 'L', 'F', 0}, 0o755))
	interpreter := filepath.Join(dir, "interpreter")
	must.NoError(t, os.WriteFile(interpreter, []byte("#!/no/such/interpreter\n"), 0o755))
	tests := []struct {
		name    string
		cmd     Spec
		join    hostapi.Join
		want    error
		program bool // the program is at fault
	}{
		{"no such program", Spec{Path: filepath.Join(dir, "absent")}, join, fs.ErrNotExist, true},
		{"no such interpreter", Spec{Path: interpreter}, join, fs.ErrNotExist, true},
		{"not executable", Spec{Path: plain}, join, fs.ErrPermission, true},
		{"a directory", Spec{Path: dir}, join, fs.ErrPermission, true},
		{"not a program", Spec{Path: garbage}, join, unix.ENOEXEC, true},
		{"no such tasks file", Spec{Path: "/bin/true"}, hostapi.Join{
			Tasks: append(slices.Clone(join.Tasks[:min(1, len(join.Tasks))]), dir+"/absent/tasks")}, fs.ErrNotExist,
			false},
		{"no such cgroup", Spec{Path: "/bin/true"}, hostapi.Join{CgroupDir: dir + "/absent"}, fs.ErrNotExist, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cmd.Args = []string{"x"}
			child, err := Start(&tt.cmd, tt.join)
			if child != nil || !errors.Is(err, tt.want) {
				t.Fatalf("Start = %v, %v; want %v", child, err, tt.want)
			}
			if e := new(ExecError); errors.As(err, &e) != tt.program {
				t.Errorf("Start = %v (%T): the program's fault: want %v", err, err, tt.program)
			}
		})
	}
	if text := strings.TrimSpace(members(t, join)); text != "" {
		t.Errorf("left in the job's cgroup: %q", text)
	}
}

// TestStartRefusedByCgroup writes to a tasks file that the kernel refuses after another has taken
// the thread.
func TestStartRefusedByCgroup(t *testing.T) {
	kernfstest.NeedV1(t, v1Controllers...)
	join := jobCgroup(t, "refused")
	empty := "/sys/fs/cgroup/cpuset/" + filepath.Base(join.CgroupDir) + "_empty"
	must.NoError(t, os.Mkdir(empty, 0o755))
	t.Cleanup(func() { removeCgroup(t, empty) })
	marker := filepath.Join(t.TempDir(), "ran")
	join.Tasks[3] = empty + "/tasks"
	child, err := Start(&Spec{Path: "/bin/touch", Args: []string{"touch", marker}}, join)
	if child != nil || !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("Start = %v, %v; want ENOSPC", child, err)
	}
	if _, err := os.Stat(marker); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the program ran: %v", err)
	}
	if text := strings.TrimSpace(members(t, hostapi.Join{Tasks: join.Tasks[:3]})); text != "" {
		t.Errorf("left in the job's cgroup: %q", text)
	}
}

// TestStartPidsMax pins what the thread that joins v1 costs: it counts beside the child until it is
// gone. The child alone joins v2. A move is not bounded (cgroup-v2.rst, "PID"): a child that was
// moved in cannot fork.
func TestStartPidsMax(t *testing.T) {
	join := jobCgroup(t, "pids")
	dir, least := join.CgroupDir, 1
	if len(join.Tasks) > 0 {
		dir, least = filepath.Dir(join.Tasks[2]), 2
	}
	limit := filepath.Join(dir, "pids.max")
	must.NoError(t, os.WriteFile(limit, []byte(strconv.Itoa(least-1)), 0))
	var opened files
	defer opened.close()
	if procs, err := movesIn(join, &opened); err != nil {
		t.Fatal(err)
	} else if procs != nil {
		least = 1
	} else if child, err := Start(cat("/dev/null"), join); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("pids.max %d: Start = %v, %v; want EAGAIN", least-1, child, err)
	}
	must.NoError(t, os.WriteFile(limit, []byte(strconv.Itoa(least)), 0))
	if _, exit := output(t, cat("/dev/null"), join); exit.Code() != 0 {
		t.Errorf("pids.max %d: exit status %d", least, exit.Code())
	}
}

func TestChildWaitAndSignal(t *testing.T) {
	child, err := Start(&Spec{Path: "/bin/sleep", Args: []string{"sleep", "60"}}, hostapi.Join{})
	must.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := child.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with a done context = %v", err)
	}
	must.NoError(t, child.Signal(unix.SIGTERM))
	for range 2 {
		exit, err := child.Wait(t.Context())
		if err != nil || exit.Code() != 143 {
			t.Errorf("Wait = %d, %v; want 143", exit.Code(), err)
		}
	}
	if err := child.Signal(unix.SIGTERM); !errors.Is(err, ErrGone) {
		t.Errorf("Signal after the end = %v, want ErrGone", err)
	}
}

func TestChildRusage(t *testing.T) {
	_, exit := output(t, &Spec{Path: "/bin/sh", Args: []string{"sh", "-c",
		"i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"}}, hostapi.Join{})
	if used := exit.Rusage.Utime.Nano() + exit.Rusage.Stime.Nano(); used <= 0 || exit.Rusage.Maxrss <= 0 {
		t.Errorf("rusage: %d ns, %d kB", used, exit.Rusage.Maxrss)
	}
}

// BenchmarkStart compares a start inside a job's cgroups with a bare fork and exec.
func BenchmarkStart(b *testing.B) {
	join := jobCgroup(b, "bench")
	for _, bb := range []struct {
		name string
		join hostapi.Join
	}{
		{"bare", hostapi.Join{}},
		{"v1", hostapi.Join{Tasks: join.Tasks}},
		{"v2", hostapi.Join{CgroupDir: join.CgroupDir}},
		{"hybrid", join},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				child, err := Start(&Spec{Path: "/bin/true", Args: []string{"true"}}, bb.join)
				must.NoError(b, err)
				if _, err := child.Wait(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
