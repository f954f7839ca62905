package main_test

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

// inNamespace is set where the test runs once more, as the first process of a pid namespace; to
// what tells its cgroups from others' there.
const inNamespace = "HOOKHOST_TEST_NAMESPACE"

var strangerTries = flag.Int("stranger.tries", 0, "tries of TestReusedNumberTakesNoStrangerIn; 0 for some seconds")

// A user asks without end that own processes be attached. Each is killed and reaped meanwhile, and
// a process of root's gets its number. No process of root's becomes part of the job, but for those
// that the kernel moves within microseconds of the last look. The log says so of each.
func TestReusedNumberTakesNoStrangerIn(t *testing.T) {
	must.BesideOthers(t)
	if os.Getenv(inNamespace) == "" {
		runInNamespace(t, fmt.Sprint("-stranger.tries=", *strangerTries))
		return
	}
	n := newNodeOfNamespace(t)
	const job = "7.node"
	n.beginFor(t, job)
	asker := startAsker(t, n.path("run/s"), job)
	tries, given, attached, moved := 0, 0, 0, 0
	for end := time.Now().Add(4 * time.Second); !t.Failed(); tries++ {
		if *strangerTries == 0 && time.Now().After(end) || *strangerTries > 0 && tries >= *strangerTries {
			break
		}
		first := orphanOf(t, ownerUID, 0)
		fmt.Fprintln(asker.In, first)
		time.Sleep(time.Duration(rand.N(1500)) * time.Microsecond)
		proctest.Bury(t, first)
		heir := orphanOf(t, 0, first)
		answer, err := asker.Out.ReadString('\n')
		must.NoError(t, err)
		if strings.TrimSpace(answer) == "200" {
			attached++
		}
		if heir == first {
			given++
		}
		if strings.Contains(cgroupsOf(t, heir), "/"+job) {
			moved++
		}
		proctest.Bury(t, heir)
	}
	t.Logf("%d tries: the number was given away in %d, the first was attached in %d, the heir moved in %d",
		tries, given, attached, moved)
	log, err := os.ReadFile(n.path("log"))
	must.NoError(t, err)
	if said := strings.Count(string(log), "ended while it was being moved"); moved > said {
		t.Errorf("%d processes of root's are in the job, and the log has %d of them", moved, said)
	}
	if given < tries/2 {
		t.Errorf("the number was given away in %d of %d tries only", given, tries)
	}
}

// orphanOf starts a process of a user, and gives it the number want unless that is 0.
func orphanOf(t *testing.T, uid uint32, want int) int {
	t.Helper()
	if want > 0 {
		must.NoError(t, os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(want-1)), 0))
	}
	pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "1000"},
		&syscall.ProcAttr{Dir: "/", Sys: sessionOf(uid)})
	must.NoError(t, err)
	return pid
}

// asker is a user who asks that processes be attached to a job. Their numbers come by standard
// input, and the status of each answer goes to standard output.
const asker = `
import http.client, json, socket, sys
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])
c = Connection("x")
for line in sys.stdin:
    c.request("POST", "/v1/attach", json.dumps({"job": sys.argv[2], "pid": int(line)}))
    answer = c.getresponse()
    answer.read()
    print(answer.status, flush=True)
`

func startAsker(t *testing.T, socket, job string) *proctest.Shell {
	t.Helper()
	cmd := exec.Command("/usr/bin/python3", "-uc", asker, socket, job)
	cmd.Dir, cmd.SysProcAttr = "/", sessionOf(ownerUID)
	return startShell(t, cmd)
}

// startShell starts a shell that makes orphans.
func startShell(t *testing.T, cmd *exec.Cmd) *proctest.Shell {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	must.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	must.NoError(t, err, cmd.Start())
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	return &proctest.Shell{PID: cmd.Process.Pid, In: stdin, Out: bufio.NewReader(stdout)}
}

// runInNamespace runs the test once more, as the first process of a pid namespace.
func runInNamespace(t *testing.T, args ...string) {
	t.Helper()
	newNode(t) // which knows whether we are root
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe",
		append([]string{"-test.run=^" + t.Name() + "$", "-test.v"}, args...)...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=_%d_%d", inNamespace, os.Getpid(), nodes.Add(1)),
		"HOOKHOST_TEST_BIN="+built)
	runtime.LockOSThread() // the signal comes when the thread ends that has started the process
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
}

// newNodeOfNamespace is newNode with a daemon, for the first process of a pid namespace.
func newNodeOfNamespace(t *testing.T) *node {
	t.Helper()
	must.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""))
	n := newNode(t, "systemd = \"off\"\n[cpuset]\nenabled = false\n") // it has no process in this namespace
	n.serve()
	return n
}

func cgroupsOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	must.NoError(t, err)
	return string(b)
}
