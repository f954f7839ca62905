package plugin

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// stopperUID is nobody's but this test's: what it stops, and what is stopped, are its own.
const stopperUID = 61_234_567

const (
	besetEnv  = "HOOKHOST_TEST_BESET"  // makes this test program a host whose children are stopped
	lingerEnv = "HOOKHOST_TEST_LINGER" // has a program that becomes another user's wait before its execve
)

// linger is ExecAsOwner, with all the time there is to be stopped in.
func linger() {
	if err := becomeOwner(os.Args[2:]); err != nil {
		panic(err)
	}
	time.Sleep(time.Minute)
	os.Exit(1)
}

// beset starts programs of a user who stops all that is his, and of root's, and ends the process.
func beset() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	program, err := os.Open("/bin/true")
	if err != nil {
		panic(err)
	}
	s := newSpawner()
	for range 5 {
		p := &process{path: "/bin/true", file: program, cred: &syscall.Credential{Uid: stopperUID, Gid: stopperUID},
			env: []string{lingerEnv + "=1"}}
		cmd := p.command(null, null, os.Stderr)
		// Each is two system calls of the process before its first execve(2): a wide gap to be
		// stopped in.
		cmd.ExtraFiles = slices.Concat(cmd.ExtraFiles, slices.Repeat([]*os.File{null}, 1000))
		if err := s.do(cmd.Start); err != nil {
			panic(err)
		}
		for !stopped(cmd.Process.Pid) {
			time.Sleep(time.Millisecond)
		}
		runtime.GC()
		if err := s.do(exec.Command("/bin/true").Run); err != nil {
			panic(err)
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	s.close()
	os.Exit(0)
}

// stopped reports whether a signal has stopped the process while it still was this program.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		panic(err)
	}
	own, _ := os.Readlink("/proc/self/exe")
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	state := stat[bytes.LastIndexByte(stat, ')')+2]
	if state == 'Z' {
		panic("the program has ended: nobody has stopped it")
	}
	return exe == own && state == 'T'
}

// A user who stops a process between its setuid(2) and its execve(2) has nobody else wait. The host
// may have one processor or collect its garbage.
func TestProcessThatIsStoppedBeforeItsExecHoldsUpNobody(t *testing.T) {
	kernfstest.NeedRoot(t)
	asStopper := func(script string) *exec.Cmd {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true,
			Credential: &syscall.Credential{Uid: stopperUID, Gid: stopperUID}}
		return cmd
	}
	for _, processors := range []int{1, runtime.NumCPU()} {
		t.Run(fmt.Sprint("GOMAXPROCS=", processors), func(t *testing.T) {
			stopper := asStopper("while kill -STOP -1 || :; do :; done 2>/dev/null")
			if err := stopper.Start(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			host := exec.CommandContext(ctx, "/proc/self/exe")
			host.Env = append(os.Environ(), besetEnv+"=1", fmt.Sprint("GOMAXPROCS=", processors))
			host.WaitDelay = time.Second
			out, err := host.CombinedOutput()
			if ctx.Err() != nil {
				t.Error("a process that was stopped before its execve holds up the host")
			}
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			stopper.Process.Kill()
			stopper.Wait()
			asStopper("kill -KILL -1").Run() // what a failure has left
		})
	}
}

// A hook's program has all of its owner's ids and none of root's, as if os/exec itself had made it
// his.
func TestProgramOfAnOwnerIsTheOwnersAlone(t *testing.T) {
	kernfstest.NeedRoot(t)
	for name, want := range map[string]string{"groups": "4 24", "no-groups": ""} {
		t.Run(name, func(t *testing.T) {
			script := filepath.Join(t.TempDir(), name)
			const text = "#!/bin/sh\necho $0 $@; grep -E '^(Uid|Gid|Groups|CapEff|CapPrm|Sig...):' " +
				"/proc/self/status; ulimit -n; umask; pwd; " +
				"echo $A; cut -d' ' -f6 /proc/$$/stat; echo $$\n"
			if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			got, reference := runAs(t, script, want, true), runAs(t, script, want, false)
			if got != reference {
				t.Errorf("it runs with\n%s\nwant, as os/exec starts it,\n%s", got, reference)
			}
		})
	}
}

// The kernel kills a program of an owner as soon as any other, whatever it does with the daemon.
func TestProgramOfAnOwnerDoesNotHaveTheDaemonsOOMScore(t *testing.T) {
	kernfstest.NeedRoot(t)
	const own = "/proc/self/oom_score_adj"
	before, err := os.ReadFile(own)
	if err != nil || strings.TrimSpace(string(before)) != "0" {
		t.Skipf("the test's own score is %q, %v", before, err)
	}
	if err := os.WriteFile(own, []byte("100"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.WriteFile(own, before, 0)
	script := filepath.Join(t.TempDir(), "score")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ncat /proc/$$/oom_score_adj\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := runAs(t, script, "", true); strings.TrimSpace(got) != "0" {
		t.Errorf("oom_score_adj %q, want 0 beside the daemon's 100", got)
	}
}

// runAs returns the output of a program as the owner's, started as the host does or by os/exec
// alone.
func runAs(t *testing.T, program, groups string, asHost bool) string {
	t.Helper()
	file, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cred := &syscall.Credential{Uid: stopperUID, Gid: stopperUID + 1}
	for _, group := range strings.Fields(groups) {
		id, _ := strconv.Atoi(group)
		cred.Groups = append(cred.Groups, uint32(id))
	}
	p := &process{path: program, file: file, cred: cred, env: []string{"PATH=/usr/bin:/bin", "A=b"}}
	if !asHost {
		p.cred = nil
	}
	cmd := p.command(null, w, w)
	if !asHost {
		cmd.SysProcAttr.Credential = cred
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var out bytes.Buffer
	out.ReadFrom(r)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	return strings.ReplaceAll(out.String(), pid, "PID")
}

// A program of an owner's ends with the thread that started it, as root's do.
func TestProgramOfAnOwnerDiesWithItsHost(t *testing.T) {
	kernfstest.NeedRoot(t)
	script := filepath.Join(t.TempDir(), "waits")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho ready; read never <&3"), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(script)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lifeline, host, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll([]*os.File{lifeline, host})
	p := &process{path: script, file: file, cred: &syscall.Credential{Uid: stopperUID, Gid: stopperUID}}
	cmd := p.command(lifeline, nil, os.Stderr)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s := newSpawner()
	if onMainThread(s) { // which ends with the process
		defer s.close()
		s = newSpawner()
	}
	if err := s.do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s.close()
	late := time.AfterFunc(20*time.Second, func() { cmd.Process.Signal(syscall.SIGTERM) })
	defer late.Stop()
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended by %v, want SIGKILL", err)
	}
}

func onMainThread(s *spawner) (main bool) {
	s.do(func() error { main = syscall.Gettid() == os.Getpid(); return nil })
	return main
}

// A program that its owner may not execute says so.
func TestProgramThatItsOwnerMayNotExecute(t *testing.T) {
	path := filepath.Join(plugintest.Programs(), "roots")
	program, err := os.ReadFile(filepath.Join(plugintest.Programs(), "misbehave"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, program, 0o700); err != nil {
		t.Fatal(err)
	}
	p := launchNobodys(t, "roots")
	_, err = p.call(t.Context(), nobodysPrologue)
	if want := "exec " + path + ": permission denied"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}
