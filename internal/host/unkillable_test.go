package host

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
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

// trace has the process not die until stop is called.
func trace(t *testing.T, pid int) (stop func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{tracerEnv + "=" + strconv.Itoa(pid)}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() { cmd.Process.Kill(); cmd.Wait() }
	t.Cleanup(stop)
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil || said != "0\n" {
		t.Fatalf("the process cannot be traced: %q, %v", said, err)
	}
	return stop
}

// After an alarm the next program waits until the killed one is dead, for a while: a program in the
// kernel may never be.
func TestProgramThatDoesNotDie(t *testing.T) {
	kernfstest.NeedRoot(t)
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("mode = \"hang\"\nonce = %q", filepath.Join(n.dir, "once")), "alarm=2")
	h := n.open()
	plugintest.Eventually(t, "it runs", func() bool { return hookPID(t, h, "a") != 0 })
	pid := hookPID(t, h, "a")
	stop := trace(t, pid)
	if v := judge(t, h, hostapi.EventBegin, "1.srv"); v.Kind != hostapi.KindTimeout {
		t.Errorf("kind %q, want the alarm", v.Kind)
	}
	list, err := h.Hooks()
	want := fmt.Sprintf("program %d was killed by an alarm: waiting", pid)
	if err != nil || list[0].State != "starting" || !strings.Contains(list[0].Error, want) {
		t.Errorf("status %+v, %v, want %q", list, err, want)
	}
	plugintest.Eventually(t, "the next one runs", func() bool { return hookPID(t, h, "a") != 0 })
	if !runs(fmt.Sprint("/proc/", pid)) {
		t.Error("the program has died: nothing was tested")
	}
	must(t, h, hostapi.EventBegin, "2.srv")
	must(t, h, hostapi.EventEnd, "2.srv")
	left := fmt.Sprintf("kill program %d: it hangs in the kernel", pid)
	if n := strings.Count(n.log.String(), left); n != 1 {
		t.Errorf("the log says %d times that it is left behind", n)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	plugintest.Eventually(t, "the program is reaped", func() bool { return len(plugintest.Children(t)) == 0 })
}
