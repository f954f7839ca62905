package host

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// tracerEnv makes this test program a tracer of the process that it names.
const tracerEnv = "HOOKHOST_TEST_TRACER"

// tracer has the process stop on its way out, for as long as the tracer lives, and prints whether
// it may.
func tracer(pid string) {
	runtime.LockOSThread()
	n, _ := strconv.Atoi(pid)
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(n), 0, unix.PTRACE_O_TRACEEXIT, 0, 0)
	fmt.Println(int(errno))
	time.Sleep(time.Minute)
	os.Exit(0)
}

var nobody = hostapi.Owner{User: "nobody", UID: 65534, GID: 65534}

// newOwnersNode is newNode for hooks that run as nobody.
func newOwnersNode(t *testing.T) *node {
	t.Helper()
	kernfstest.NeedRoot(t)
	n := newNode(t)
	for _, dir := range []string{n.dir, plugintest.Programs()} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func judgeAsOwner(t *testing.T, h *Host, e hostapi.Event, id string) *Verdict {
	t.Helper()
	req := event(e, id)
	req.Job.Owner = nobody
	v, err := h.Judge(t.Context(), req)
	if err != nil {
		t.Fatalf("%s of job %s: %v", e, id, err)
	}
	return v
}

// ownersProgram waits until a program of nobody's runs as this process's child, and returns its
// pid.
func ownersProgram(t *testing.T) int {
	t.Helper()
	self, _ := os.Readlink("/proc/self/exe") // a tracer has it, too
	var pid int
	plugintest.Eventually(t, "a program of nobody's", func() bool {
		for _, child := range plugintest.Children(t) {
			exe, _ := os.Readlink("/proc/" + child + "/exe")
			status, _ := os.ReadFile("/proc/" + child + "/status")
			if exe != self && strings.Contains(string(status), "\nUid:\t65534\t") {
				pid, _ = strconv.Atoi(child)
			}
		}
		return pid > 0
	})
	return pid
}

// trace has nobody trace the process and returns what the kernel says to that.
func trace(t *testing.T, pid int) (errno syscall.Errno, stop func()) {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Env = []string{tracerEnv + "=" + strconv.Itoa(pid)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(nobody.UID),
		Gid: uint32(nobody.GID)}}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() { cmd.Process.Kill(); cmd.Wait() }
	t.Cleanup(stop)
	said, err := bufio.NewReader(out).ReadString('\n')
	n, convErr := strconv.Atoi(strings.TrimSpace(said))
	if err != nil || convErr != nil {
		t.Fatal(said, err, convErr)
	}
	return syscall.Errno(n), stop
}

// A hook of user=pbsuser is a process of the job's owner, for each event a new one.
func TestOwnersHook(t *testing.T) {
	n := newOwnersNode(t)
	log := filepath.Join(n.dir, "log")
	if err := os.WriteFile(log, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(log, 0o666); err != nil {
		t.Fatal(err)
	}
	child := filepath.Join(n.dir, "child")
	if err := os.Mkdir(child, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(child, 0o777); err != nil {
		t.Fatal(err)
	}
	n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nevent = %q\nlog = %q\nvalue = %q", "child", "execjob_prologue",
		log, child+"/pid"),
		"event=execjob_prologue,execjob_epilogue", "user=pbsuser")
	h := n.open()
	if pid := hookPID(t, h, "a"); pid != 0 {
		t.Error("the hook runs although there is no job")
	}
	for _, e := range []hostapi.Event{hostapi.EventBegin, hostapi.EventPrologue, hostapi.EventEpilogue,
		hostapi.EventEnd} {
		if v := judgeAsOwner(t, h, e, "1.srv"); v.Reject {
			t.Fatal(v)
		}
	}
	if got := strings.Join(n.calls("log"), " "); got != "execjob_prologue 1.srv 1 execjob_epilogue 1.srv 1" {
		t.Errorf("calls: %s", got)
	}
	st, err := os.Stat(child + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	if uid := ownerOf(st); uid != 65534 {
		t.Errorf("the hook ran as uid %d", uid)
	}
	if left, _ := filepath.Glob(filepath.Join(n.dir, "run", "host-*", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A hook of user=pbsuser starts whatever the host's umask is.
func TestOwnersHookUnderAnUmask(t *testing.T) {
	n := newOwnersNode(t)
	n.hook("a", "misbehave", "", "event=execjob_prologue", "user=pbsuser")
	defer unix.Umask(unix.Umask(0o077))
	h := n.open()
	for _, e := range []hostapi.Event{hostapi.EventBegin, hostapi.EventPrologue, hostapi.EventEnd} {
		if v := judgeAsOwner(t, h, e, "1.srv"); v.Reject {
			t.Error(v.Message)
		}
	}
}

// A hook with user=pbsuser says no more than its user may.
func TestOwnersHookHasNoSayInTheNode(t *testing.T) {
	n := newOwnersNode(t)
	n.hook("a", "misbehave", "mode = \"say\"\nevent = \"execjob_epilogue\"\nvalue = '"+
		`{"vnodes":{"n1":{"state":"offline","resources_available":{"ncpus":"4096"}}},"resources_used":{"cput":"00:00:00"},`+
		`"usage":{"cpu_seconds":1},"diag":"d","notes":["by root"],"walltime_limit":1,"call_again":1000000000,`+
		`"state":{"a":1},"job_stderr":["mine"]}'`,
		"event=execjob_prologue,execjob_epilogue", "user=pbsuser", "order=1")
	h := n.open()
	judgeAsOwner(t, h, hostapi.EventBegin, "1.srv")
	v := judgeAsOwner(t, h, hostapi.EventEpilogue, "1.srv")
	if v.Reject || v.Vnodes != nil || v.ResourcesUsed != nil || v.Usage != nil || v.Diag != "" || v.Notes != nil ||
		v.WalltimeLimit != nil {
		t.Errorf("the job's owner has a say in the node: %+v", v.Outcome)
	}
	if len(v.JobStderr) != 1 || string(n.record("1.srv").HookState["a"]) != `{"a":1}` {
		t.Errorf("job_stderr %q, state %s, want the hook's", v.JobStderr, n.record("1.srv").HookState["a"])
	}
	const want = "no say in: resources_used, usage, diag, notes, vnodes, call_again, walltime_limit"
	if n.log.Find(want) == nil {
		t.Errorf("the log does not tell what was passed over: %s", want)
	}
}

// The owner of a job can neither put its node offline nor have others wait, by stopping what runs
// as him.
func TestOwnersHookThatIsStopped(t *testing.T) {
	n := newOwnersNode(t)
	n.hook("a", "misbehave", "mode = \"hang\"\nevent = \"execjob_prologue\"",
		"event=execjob_prologue", "user=pbsuser", "alarm=1", "fail_action=offline_vnodes,scheduler_restart_cycle")
	h := n.open()
	judgeAsOwner(t, h, hostapi.EventBegin, "1.srv")
	go func() {
		if pid := ownersProgram(t); pid > 0 {
			unix.Kill(pid, unix.SIGSTOP)
		}
	}()
	v := judgeAsOwner(t, h, hostapi.EventPrologue, "1.srv")
	if v.Kind != hostapi.KindTimeout || len(v.FailAction) > 0 {
		t.Errorf("kind %q, fail_action %v, want a timeout on which nothing acts", v.Kind, v.FailAction)
	}
	judgeAsOwner(t, h, hostapi.EventEnd, "1.srv")
	plugintest.Eventually(t, "the program is gone", func() bool { return len(plugintest.Children(t)) == 0 })
}

// A user who writes beside the socket of a program of his fills /tmp, and not the runtime
// directory, which is on /run.
func TestOwnersHookLeavesTheRuntimeDirectoryToRoot(t *testing.T) {
	n := newOwnersNode(t)
	n.hook("a", "misbehave", "mode = \"hang\"\nevent = \"execjob_prologue\"",
		"event=execjob_prologue", "user=pbsuser", "alarm=8") // it starts and is looked at before that
	h := n.open()
	judgeAsOwner(t, h, hostapi.EventBegin, "1.srv")
	prologue := make(chan *Verdict)
	go func() { prologue <- judgeAsOwner(t, h, hostapi.EventPrologue, "1.srv") }()
	pid := ownersProgram(t)
	filepath.WalkDir(filepath.Join(n.dir, "run"), func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil && unix.Lstat(path, &st) == nil && st.Uid != 0 {
			t.Errorf("%s is uid %d's to write to", path, st.Uid)
		}
		return nil
	})
	dir := ""
	plugintest.Eventually(t, "the program has the directory of its socket", func() bool {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // before its last execve(2) it has another one
		_, path, found := strings.Cut(string(env), "PLUGIN_UNIX_SOCKET_DIR=")
		path, _, _ = strings.Cut(path, "\x00")
		dir = filepath.Dir(path)
		return found
	})
	if filepath.Dir(dir) != "/tmp" {
		t.Errorf("the directory of its socket is %q, want one in /tmp", dir)
	}
	<-prologue
	judgeAsOwner(t, h, hostapi.EventEnd, "1.srv")
	plugintest.Eventually(t, "the directory is gone", func() bool {
		_, err := os.Lstat(dir)
		return os.IsNotExist(err)
	})
}

// A program that its user traces does not die when it is killed. The host, the job's end and the
// other hooks go on without it.
func TestOwnersHookThatIsTraced(t *testing.T) {
	n := newOwnersNode(t)
	n.hook("a", "misbehave", "mode = \"hang\"\nevent = \"execjob_prologue\"",
		"event=execjob_prologue", "user=pbsuser", "alarm=2", "order=1")
	n.hook("b", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "log")), "order=2")
	h := n.open()
	judgeAsOwner(t, h, hostapi.EventBegin, "1.srv")
	traced := make(chan func(), 1)
	go func() {
		errno, stop := trace(t, ownersProgram(t))
		if errno != 0 {
			t.Errorf("its user cannot trace it: %v", errno)
		}
		traced <- stop
	}()
	began := time.Now()
	v := judgeAsOwner(t, h, hostapi.EventPrologue, "1.srv")
	if took := time.Since(began); v.Kind != hostapi.KindTimeout || took > 20*time.Second {
		t.Errorf("kind %q after %v, want the alarm after 2s", v.Kind, took)
	}
	stop := <-traced
	pid := ownersProgram(t) // it is still there
	judgeAsOwner(t, h, hostapi.EventEpilogue, "1.srv")
	judgeAsOwner(t, h, hostapi.EventEnd, "1.srv")
	left := fmt.Sprintf("program %d does not die of SIGKILL", pid)
	plugintest.Eventually(t, "the host has said so", func() bool { return n.log.Find(left) != nil })
	if calls := strings.Join(n.calls("log"), " "); !strings.HasSuffix(calls, "execjob_end 1.srv 3") {
		t.Errorf("calls of the other hook: %s", calls)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	plugintest.Eventually(t, "the program is reaped", func() bool { return len(plugintest.Children(t)) == 0 })
	if n := strings.Count(n.log.String(), left); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

// A program that was imported cannot be traced by its user, who cannot read it.
func TestImportedProgramIsNotItsUsersToTrace(t *testing.T) {
	n := newOwnersNode(t)
	program, err := os.Open(filepath.Join(plugintest.Programs(), "misbehave"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if err := n.registry.Create("h"); err != nil {
		t.Fatal(err)
	}
	if err := n.registry.Import("h", plugin.ContentProgram, program); err != nil {
		t.Fatal(err)
	}
	if err := n.registry.Import("h", plugin.ContentConfig,
		strings.NewReader("mode = \"hang\"\nevent = \"execjob_prologue\"")); err != nil {
		t.Fatal(err)
	}
	if err := n.registry.Set("h", "event=execjob_prologue", "user=pbsuser", "alarm=2"); err != nil {
		t.Fatal(err)
	}
	h := n.open()
	judgeAsOwner(t, h, hostapi.EventBegin, "1.srv")
	refused := make(chan syscall.Errno, 1)
	go func() {
		errno, _ := trace(t, ownersProgram(t))
		refused <- errno
	}()
	judgeAsOwner(t, h, hostapi.EventPrologue, "1.srv")
	if errno := <-refused; errno != unix.EPERM {
		t.Errorf("its user traces it: %v, want EPERM", errno)
	}
	judgeAsOwner(t, h, hostapi.EventEnd, "1.srv")
}
