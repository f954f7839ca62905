package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

// wreck is a node whose programs, disks and cgroups fail while its jobs come and go. Somebody
// starts its daemon again, as systemd does.
type wreck struct {
	*node
	*incidents
	mounts     *exec.Cmd // has the mount namespace of the daemon
	background sync.WaitGroup

	mu       sync.Mutex
	served   int            // the last daemon that was started
	down     time.Duration  // of the next start of the daemon
	stopping bool           // the daemon is not started again
	lives    map[string]int // by hook: its crashes in the life of this daemon
	live     map[string]*liveJob
	unsaved  map[string]bool // jobs that ended while no record could be saved
	harmed   map[string]bool // jobs that may have lost their record or their report

	turns map[string]*sync.Mutex // by hook: one that crashes twice over an event has failed at it

	totals map[string]float64 // of the last scrape
}

// A hook that crashes five times is left alone for a while (internal/plugin/breaker.go).
const killsOfLife = 3

// alarm is that of the hooks, in seconds, and stalled a time that is longer.
var (
	alarm   = enough(8)
	stalled = time.Duration(alarm+2) * time.Second
)

// killPause is what an event at the least has for its second try after a kill of a hook.
var killPause = late / 5

func newWreck(t *testing.T) *wreck {
	_, fpgas := fpgas(t, 2)
	config := "kill_timeout = \"3s\"\n" + fpgas + "[host]\nnode = \"n1\"\n[walltime]\ngrace = \"1s\"\n"
	w := &wreck{
		node: newNode(t, config), incidents: newIncidents(t), lives: map[string]int{}, live: map[string]*liveJob{},
		unsaved: map[string]bool{}, harmed: map[string]bool{}, turns: map[string]*sync.Mutex{},
		totals: map[string]float64{},
	}
	for _, name := range victimHooks {
		w.turns[name] = new(sync.Mutex)
		if r := w.hookhost("hook", "set", name, fmt.Sprint("alarm=", alarm)); r.status != 0 {
			t.Fatal("alarm")
		}
	}
	w.mountDisks()
	t.Cleanup(func() {
		if b, _ := os.ReadFile(w.path("log")); t.Failed() {
			t.Logf("daemon's log:\n%s", b)
		}
		for _, pids := range w.marked() {
			for _, pid := range pids {
				send(pid, syscall.SIGKILL)
			}
		}
	})
	w.background.Go(w.supervise)
	t.Cleanup(w.stop)
	must.Eventually(t, "the daemon answers", func() bool {
		return exists(w.path("run/s")) && w.command("jobs").Run() == nil
	})
	return w
}

// command is that of a node, apart, and starts no daemon. There is one again in a moment.
func (w *wreck) command(args ...string) *exec.Cmd { return apart(w.alone(args...)) }

// supervise starts the daemon again and again.
func (w *wreck) supervise() {
	log, err := os.OpenFile(w.path("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		w.t.Error(err)
		return
	}
	defer log.Close()
	for {
		cmd := w.inside(filepath.Join(built, "hookhost"), "serve")
		cmd.Env, cmd.Stdout, cmd.Stderr = w.env(), log, log
		if !w.start(cmd) {
			return
		}
		fmt.Fprintf(log, "-- daemon %d starts\n", cmd.Process.Pid)
		cmd.Wait()
		fmt.Fprintf(log, "-- daemon %d: %v\n", cmd.Process.Pid, cmd.ProcessState)
		w.mu.Lock()
		down := w.down
		w.mu.Unlock()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() && status.ExitStatus() != 0 {
			w.wrong("the daemon: %v", cmd.ProcessState)
		}
		time.Sleep(down)
	}
}

// start starts the daemon, unless the test ends.
func (w *wreck) start(cmd *exec.Cmd) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping {
		return false
	}
	if err := cmd.Start(); err != nil {
		w.t.Error(err)
		return false
	}
	w.served = cmd.Process.Pid
	return true
}

// stop ends the daemon as systemctl stop does.
func (w *wreck) stop() {
	w.mu.Lock()
	if !w.stopping {
		w.stopping = true
		send(w.served, syscall.SIGTERM)
	}
	w.mu.Unlock()
	w.background.Wait()
}

// send sends a signal to one process, and reports whether it was there. The pids 0 and below are no
// process's.
func send(pid int, sig syscall.Signal) bool { return pid > 1 && syscall.Kill(pid, sig) == nil }

// daemonPID returns the pid of the daemon; 0 where none runs at the moment. The pid is that of the
// lock's file. A lock of the test's own would be in the way of a daemon that starts.
func (w *wreck) daemonPID() int {
	text, _ := os.ReadFile(w.lockFile())
	number, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	pid, err := strconv.Atoi(number)
	cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !bytes.HasPrefix(cmdline, []byte(filepath.Join(built, "hookhost")+"\x00serve")) {
		return 0
	}
	return pid
}

// hookPID returns the pid of a hook of the daemon, which may be starting; 0 for none.
func (w *wreck) hookPID(name string) int {
	daemon := w.daemonPID()
	for _, pid := range processesNamed(filepath.Join(built, "hooks", name)) {
		if daemon > 0 && parentOf(pid) == daemon {
			return pid
		}
	}
	return 0
}

// runningPID returns the pid of a hook that carries out events; 0 for none.
func (w *wreck) runningPID(name string) int {
	client, err := api.Dial(w.path("run/s"))
	if err != nil {
		return 0
	}
	defer client.Close()
	info, _ := client.Node(w.t.Context())
	for _, hook := range info.Hooks {
		if hook.Name == name && hook.State == "running" {
			return hook.PID
		}
	}
	return 0
}

// victim waits for a process to kill.
func (w *wreck) victim(find func() int) (pid int) {
	until := time.Now().Add(10 * time.Second)
	for pid = find(); pid == 0 && time.Now().Before(until); pid = find() {
		time.Sleep(5 * time.Millisecond)
	}
	return pid
}
