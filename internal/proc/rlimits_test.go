package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

var someRlimits = map[string]hostapi.Rlimit{
	"nofile": {Soft: 100, Hard: 200}, "core": {Soft: 0, Hard: 0}, "as": {Soft: 1 << 40, Hard: 1 << 40},
	"fsize": {Soft: 1 << 20, Hard: 1 << 30},
}

// wantRlimits checks a /proc/PID/limits for someRlimits.
func wantRlimits(t *testing.T, text string) {
	t.Helper()
	for _, want := range []string{
		`Max open files +100 +200 `, `Max core file size +0 +0 `, `Max address space +1099511627776 +1099511627776 `,
		`Max file size +1048576 +1073741824 `,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
}

func needSysResource(t *testing.T) {
	t.Helper()
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil || data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0 {
		kernfstest.Elsewhere(t, "CAP_SYS_RESOURCE")
	}
}

// The limits hold from the first instruction on, wherever the program starts, and nobody traces it
// then.
func TestStartWithRlimits(t *testing.T) {
	join := jobCgroup(t, "rlimits")
	for _, tt := range []struct {
		name string
		join hostapi.Join
	}{
		{"bare", hostapi.Join{}},
		{"v1", hostapi.Join{Tasks: join.Tasks}},
		{"v2", hostapi.Join{CgroupDir: join.CgroupDir}},
		{"hybrid", join},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "v1" || tt.name == "hybrid" {
				kernfstest.NeedV1(t, v1Controllers...)
			}
			if tt.name == "v2" || tt.name == "hybrid" {
				kernfstest.NeedV2(t)
			}
			cmd := cat("/proc/self/limits", "/proc/self/status", "/proc/self/cgroup")
			cmd.Rlimits = someRlimits
			text, exit := output(t, cmd, tt.join)
			wantRlimits(t, text)
			if exit.Code() != 0 || !strings.Contains(text, "TracerPid:\t0\n") {
				t.Errorf("exit status %d; traced: %v", exit.Code(), regexp.MustCompile(`TracerPid.*`).FindString(text))
			}
			if dir := filepath.Base(join.CgroupDir); tt.name != "bare" && !strings.Contains(text, dir) {
				t.Errorf("not in %s:\n%s", dir, text)
			}
		})
	}
}

// Limits change nothing else of what a program is started with.
func TestStartProgramWithRlimits(t *testing.T) {
	limits := map[string]hostapi.Rlimit{"nofile": {Soft: 64, Hard: 64}}
	r, w, err := os.Pipe()
	must.NoError(t, err)
	defer r.Close()
	if _, err := w.WriteString("input\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	tests := []struct {
		name string
		cmd  Spec
		want string
		code int
	}{
		{"arguments", Spec{Path: "/bin/echo", Args: []string{"echo", "a b", ""}}, "a b \n", 0},
		{"environment", Spec{Path: "/usr/bin/env", Args: []string{"env"}, Env: []string{"A=1"}}, "A=1\n", 0},
		{"stdin", Spec{Path: "/bin/cat", Args: []string{"cat"}, Stdin: r}, "input\n", 0},
		{"soft and hard", Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "ulimit -Sn; ulimit -Hn"}}, "64\n64\n", 0},
		{"inherited", Spec{Path: "/bin/sh", Args: []string{"sh", "-c", `sh -c "ulimit -n"; true`}}, "64\n", 0},
		{"script", Spec{Path: script(t, "#!/bin/sh\nulimit -n\n"), Args: []string{"x"}}, "64\n", 0},
		{"exit status", Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "exit 7"}}, "", 7},
		{"signal", Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "kill -9 $$"}}, "", 137},
		{"stops are not ours", Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "kill -TRAP $$"}}, "",
			128 + int(unix.SIGTRAP)},
		{"own session", Spec{Path: "/bin/sh", Args: []string{"sh", "-c",
			`read -r s < /proc/$$/stat; set -- $s; [ $1 = $6 ] && echo leader`}}, "leader\n", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cmd.Rlimits = limits
			got, exit := output(t, &tt.cmd, hostapi.Join{})
			if got != tt.want || exit.Code() != tt.code {
				t.Errorf("output %q, exit status %d; want %q, %d", got, exit.Code(), tt.want, tt.code)
			}
		})
	}
}

func script(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "script")
	must.NoError(t, os.WriteFile(name, []byte(text), 0o755))
	return name
}

// A program that cannot be executed is at fault itself, as it is without limits.
func TestStartErrorsWithRlimits(t *testing.T) {
	for name, want := range map[string]error{"/no/such/program": fs.ErrNotExist, t.TempDir(): fs.ErrPermission,
		script(t, "\x7fELF\x00"): unix.ENOEXEC} {
		child, err := Start(&Spec{Path: name, Args: []string{"x"}, Rlimits: someRlimits}, hostapi.Join{})
		if e := new(ExecError); child != nil || !errors.Is(err, want) || !errors.As(err, &e) {
			t.Errorf("%s: %v, %v; want %v of the program", name, child, err, want)
		}
	}
}

// A program that cannot be limited does not run.
func TestStartRlimitsRefused(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	touch := Spec{Path: "/bin/touch", Args: []string{"touch", marker}}
	for _, tt := range []struct {
		name   string
		limits map[string]hostapi.Rlimit
		want   string
	}{
		{"no such limit", map[string]hostapi.Rlimit{"gold": {}}, "no such resource"},
		{"more descriptors than the kernel has", map[string]hostapi.Rlimit{
			"nofile": {Soft: hostapi.RlimitInfinity, Hard: hostapi.RlimitInfinity}},
			"to unlimited:unlimited: operation not permitted"},
		{"soft above hard", map[string]hostapi.Rlimit{"core": {Soft: 2, Hard: 1}}, "to 2:1: invalid argument"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := touch
			cmd.Rlimits = tt.limits
			child, err := Start(&cmd, hostapi.Join{})
			if child != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Start = %v, %v; want %q", child, err, tt.want)
			}
			if e := new(ExecError); errors.As(err, &e) {
				t.Errorf("%v: that is not the program's fault", err)
			}
		})
	}
	if _, err := os.Stat(marker); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the program ran: %v", err)
	}
}

// A limit that the child would have anyway needs no tracing, so that it can be set where tracing is
// forbidden. Any other fails and says why.
func TestStartRlimitsUntraceable(t *testing.T) {
	var own unix.Rlimit
	must.NoError(t, unix.Prlimit(0, unix.RLIMIT_AS, nil, &own))
	errs := make(chan [2]error, 1)
	onOwnThread(func() { // a filter stays with its thread
		if err := forbidPtrace(); err != nil {
			errs <- [2]error{err, err}
			return
		}
		start := func(limits map[string]hostapi.Rlimit) error {
			child, err := Start(&Spec{Path: "/bin/true", Args: []string{"true"}, Rlimits: limits}, hostapi.Join{})
			if err == nil {
				_, err = child.Wait(t.Context())
			}
			return err
		}
		errs <- [2]error{start(map[string]hostapi.Rlimit{"as": {Soft: own.Cur, Hard: own.Max}}), start(someRlimits)}
	})
	got := <-errs
	if got[0] != nil {
		t.Errorf("with the limits it would have anyway: %v", got[0])
	}
	if got[1] == nil || !strings.Contains(got[1].Error(), "tracing is forbidden here") {
		t.Errorf("with others: %v", got[1])
	}
}

// forbidPtrace has the calling thread and its children fail in ptrace(2) with EPERM.
func forbidPtrace() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PTRACE, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	runtime.KeepAlive(filter)
	return nil
}

// A program of another user takes limits where the caller may set them. A program that would gain
// rights is refused, since tracing would take them away in silence.
func TestStartRlimitsAsUser(t *testing.T) {
	kernfstest.NeedRoot(t)
	nobody := &syscall.Credential{Uid: 65534, Gid: 65534}
	dir := t.TempDir()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		must.NoError(t, os.Chmod(d, 0o755))
	}
	id, err := os.ReadFile("/usr/bin/id")
	must.NoError(t, err)
	setuid := filepath.Join(dir, "id")
	must.NoError(t, os.WriteFile(setuid, id, 0o755))
	must.NoError(t, os.Chmod(setuid, 0o755|os.ModeSetuid))
	child, err := Start(&Spec{Path: setuid, Args: []string{"id"}, Credential: nobody, Rlimits: someRlimits},
		hostapi.Join{})
	if child != nil || err == nil || !strings.Contains(err.Error(), "loses its privileges") {
		t.Errorf("a set-user-ID program: %v, %v", child, err)
	}
	needSysResource(t)
	text, exit := output(t, &Spec{Path: "/bin/sh", Args: []string{
		"sh", "-c", "id -u; cat /proc/self/limits; " + setuid + " -u"}, Credential: nobody, Rlimits: someRlimits},
		hostapi.Join{})
	wantRlimits(t, text)
	if exit.Code() != 0 || !strings.HasPrefix(text, "65534\n") || !strings.HasSuffix(text, "\n0\n") {
		t.Errorf("exit status %d: want user 65534, and root for the set-user-ID program that it starts:\n%s",
			exit.Code(), text)
	}
}

// The limits of a process that runs are set by its identity.
func TestSetRlimits(t *testing.T) {
	always := func(string) bool { return true }
	r, w, err := os.Pipe()
	must.NoError(t, err)
	child, err := Start(&Spec{Path: "/bin/cat", Args: []string{"cat"}, Stdin: r}, hostapi.Join{})
	r.Close()
	must.NoError(t, err)
	procfs := procFS(t)
	p, err := Read(procfs, child.PID)
	must.NoError(t, err)
	if err := SetRlimits(procfs, p.ID(), someRlimits, always); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", child.PID))
	must.NoError(t, err)
	wantRlimits(t, string(text))
	beyond := map[string]hostapi.Rlimit{"core": {Soft: hostapi.RlimitInfinity, Hard: hostapi.RlimitInfinity},
		"nofile": {Soft: 1 << 20, Hard: 1 << 30}}
	if err := SetRlimits(procfs, p.ID(), beyond, func(string) bool { return false }); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]uint64{"core": someRlimits["core"].Hard, "nofile": someRlimits["nofile"].Hard} {
		var got unix.Rlimit
		if err := unix.Prlimit(child.PID, rlimits[name], nil, &got); err != nil ||
			got != (unix.Rlimit{Cur: want, Max: want}) {
			t.Errorf("%s, which may not be raised: %+v, want the hard limit %d (%v)", name, got, want, err)
		}
	}
	other := p.ID()
	other.StartTime++
	if err := SetRlimits(procfs, other, map[string]hostapi.Rlimit{"core": {Soft: 1, Hard: 1}}, always); !errors.Is(err,
		ErrGone) {
		t.Errorf("another process of that number: %v", err)
	}
	w.Close()
	if _, err := child.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := SetRlimits(procfs, p.ID(), someRlimits, always); !errors.Is(err, ErrGone) {
		t.Errorf("after its end: %v", err)
	}
}

// BenchmarkStartWithRlimits is what being traced until its first instruction costs a program.
func BenchmarkStartWithRlimits(b *testing.B) {
	join := jobCgroup(b, "benchlimits")
	for b.Loop() {
		child, err := Start(&Spec{Path: "/bin/true", Args: []string{"true"}, Rlimits: someRlimits}, join)
		must.NoError(b, err)
		if _, err := child.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
