package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// built holds the programs under test, as `make` lays them out.
var built string

// TestMain builds the programs, unless HOOKHOST_TEST_BIN is where they lie already: a guest has no
// Go.
func TestMain(m *testing.M) {
	flag.Set("test.parallel", "6") // tests that run beside others wait more than they do
	flag.Parse()
	fuzz := flag.Lookup("test.fuzz") // a fuzz target needs no programs, and each of its workers comes by here
	if built = os.Getenv("HOOKHOST_TEST_BIN"); built != "" || fuzz != nil && fuzz.Value.String() != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "hookhost-blackbox")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = dir
	status := 1
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err = build(ctx, dir)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		status = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(status)
}

func build(ctx context.Context, dir string) error {
	for out, pkg := range map[string]string{
		"hookhost": ".", "pbs-attach": "../pbs-attach", "hooks/cgroup": "../../hooks/cgroup",
		"hooks/devices": "../../hooks/devices", "hooks/walltime": "../../hooks/walltime",
		"hooks/mpi": "../../hooks/mpi", "hooks/private": "../../hooks/private",
		"hooks/container": "../../hooks/container", "samples/deny": "../../hostapi/examples/deny",
		"openpbs/pbs_python": "../../cmd/pbs-python",
	} {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, out), pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
	}
	return os.Symlink("hookhost", filepath.Join(dir, "hookhost-remsh"))
}

var nodes atomic.Int32

// node is a place to run hookhost in: its own state, socket, configuration and cgroup prefix.
type node struct {
	t        testing.TB
	dir      string
	prefix   string
	starting sync.Mutex // one command starts the daemon
}

func newNode(t testing.TB, config ...string) *node {
	t.Helper()
	kernfstest.NeedRoot(t)
	dir, err := os.MkdirTemp("", "hh") // not t.TempDir: a socket lives in it, and its path has to be short
	must.NoError(t, err)
	return newNodeIn(t, dir, strings.Join(config, "\n"))
}

// newNodeIn is newNode in a folder, which is removed with the node.
func newNodeIn(t testing.TB, dir, config string) *node {
	t.Helper()
	n := &node{t: t, dir: dir, prefix: fmt.Sprintf("hhtest_%d%s_%d", os.Getpid(), os.Getenv(inNamespace), nodes.Add(1))}
	text := "[cgroup]\nprefix = \"" + n.prefix + "\"\n" + config
	must.NoError(t, os.WriteFile(n.path("hookhost.toml"), []byte(text), 0o600))
	t.Cleanup(func() {
		n.endDaemon()
		if left := n.jobDirs(); len(left) > 0 {
			t.Errorf("cgroups left behind: %v", left)
		}
		n.removeCgroups()
		os.RemoveAll(dir)
	})
	return n
}

// lockFile is what the owner of the node's jobs locks.
func (n *node) lockFile() string { return "/run/hookhost/" + n.prefix + ".lock" }

// owner returns the pid of the daemon that has the lock, and 0 where none has.
func (n *node) owner() int {
	n.t.Helper()
	f, err := os.Open(n.lockFile())
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	must.NoError(n.t, err)
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		return 0
	}
	text, err := io.ReadAll(f)
	must.NoError(n.t, err)
	pid := 0
	fmt.Sscan(string(text), &pid)
	return pid
}

// endDaemon ends the daemon, if one runs.
func (n *node) endDaemon() {
	n.t.Helper()
	if pid := n.owner(); pid > 1 {
		syscall.Kill(pid, syscall.SIGTERM)
		must.Eventually(n.t, "the daemon ends", func() bool { return n.owner() == 0 })
	}
	os.Remove(n.lockFile())
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

func (n *node) env() []string {
	return append(os.Environ(), "HOOKHOST_CONFIG="+n.path("hookhost.toml"), "HOOKHOST_STATE="+n.path("state"),
		"HOOKHOST_SOCKET="+n.path("run/s"))
}

// result is what a command left.
type result struct {
	stdout, stderr string
	status         int
}

// command returns a command. The daemon that it needs is started, unless one runs.
func (n *node) command(args ...string) *exec.Cmd {
	n.t.Helper()
	if len(args) > 0 && slices.Contains([]string{"run", "event"}, args[0]) {
		n.starting.Lock()
		defer n.starting.Unlock()
		if n.owner() == 0 {
			n.tryServe((*exec.Cmd).Start)
		}
	}
	return n.alone(args...)
}

// alone returns a command, whether a daemon runs or not.
func (n *node) alone(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute) // a guest is slow
	n.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(built, "hookhost"), args...)
	cmd.Env = n.env()
	return cmd
}

// hookhost runs a command to its end.
func (n *node) hookhost(args ...string) result {
	n.t.Helper()
	return n.finish(n.command(args...))
}

func (n *node) finish(cmd *exec.Cmd) result {
	n.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		n.t.Fatalf("%v: %v", cmd.Args, err)
	}
	r := result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	n.t.Logf("%s\nstatus %d\nstdout: %s\nstderr: %s", strings.Join(cmd.Args[1:], " "), r.status, r.stdout, r.stderr)
	return r
}

// usageReport is the part of the report's JSON that tests look at, decoded apart from the
// program's own types.
type usageReport struct {
	Job           string
	Name          string
	Owner         string
	Start, End    time.Time
	ExitStatus    *int           `json:"exit_status"`
	ResourcesUsed map[string]any `json:"resources_used"`
	Hosts         map[string]struct {
		CPUs            string
		NCPUs           int
		CPUTSeconds     *float64 `json:"cput_seconds"`
		MemBytes        *int64   `json:"mem_bytes"`
		MemSource       string   `json:"mem_source"`
		CgroupPeakBytes *int64   `json:"cgroup_peak_bytes"`
		MemLimitBytes   *int64   `json:"mem_limit_bytes"`
		OOMKills        *int64   `json:"oom_kills"`
		Attached        int      `json:"processes_attached"`
		Kill            *struct {
			Signal     string
			Stragglers int
		}
		ThrottledSeconds *float64 `json:"throttled_seconds"`
		MajorFaults      *int64   `json:"major_faults"`
		PidsPeak         *int64   `json:"pids_peak"`
		Pressure         *struct {
			MemorySome *float64 `json:"memory_some_seconds"`
		}
		Ranks  []reportedRank
		Series *reportedSeries
	}
	Missing      map[string]string
	DiagMessages map[string]string `json:"diag_messages"`
	Notes        []string
}

// report finds the one JSON object that stands on a line of its own, the report of one host.
func (r result) report(t testing.TB) usageReport {
	t.Helper()
	return decodeReport(t, r.stderr+"\n"+r.stdout)
}

func decodeReport(t testing.TB, text string) usageReport {
	t.Helper()
	rep := reportOfHosts(t, text)
	if len(rep.Hosts) != 1 {
		t.Fatalf("report has %d hosts, want 1", len(rep.Hosts))
	}
	return rep
}

// reportOfHosts decodes the first JSON object that stands on a line of its own.
func reportOfHosts(t testing.TB, text string) (rep usageReport) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "{") {
			must.NoError(t, json.Unmarshal([]byte(line), &rep))
			return rep
		}
	}
	t.Fatalf("no report in %q", text)
	return rep
}

// daemon is a running `hookhost serve`.
type daemon struct {
	cmd   *exec.Cmd
	n     *node
	log   *os.File
	ended chan struct{} // is closed when it has ended, with err
	err   error
}

// serve starts the node's daemon, in place of one that runs.
func (n *node) serve() *daemon {
	n.t.Helper()
	n.endDaemon()
	return n.serveBy((*exec.Cmd).Start)
}

// serveBy is serve with the command as start starts it.
func (n *node) serveBy(start func(*exec.Cmd) error) *daemon {
	n.t.Helper()
	d := n.tryServe(start)
	if d.cmd == nil {
		n.t.Fatal("the daemon does not serve")
	}
	return d
}

// tryServe is serveBy for a daemon that may refuse its configuration.
func (n *node) tryServe(start func(*exec.Cmd) error) *daemon {
	n.t.Helper()
	log, err := os.OpenFile(n.path("log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	must.NoError(n.t, err)
	cmd := apart(exec.Command(filepath.Join(built, "hookhost"), "serve"))
	cmd.Env, cmd.Stdout, cmd.Stderr = n.env(), log, log
	must.NoError(n.t, start(cmd))
	d := &daemon{cmd: cmd, n: n, log: log, ended: make(chan struct{})}
	go func() {
		d.err = cmd.Wait()
		close(d.ended)
	}()
	n.t.Cleanup(func() {
		d.stop()
		if n.t.Failed() {
			b, _ := os.ReadFile(n.path("log"))
			n.t.Logf("daemon's log:\n%s", b)
		}
	})
	must.Eventually(n.t, "the daemon answers",
		func() bool { return d.hasEnded() || exists(n.path("run/s")) && n.alone("jobs").Run() == nil })
	if d.hasEnded() {
		d.cmd = nil
	}
	return d
}

func (d *daemon) stop() {
	if d.cmd == nil {
		return
	}
	d.cmd.Process.Signal(syscall.SIGTERM)
	<-d.ended
	if d.err != nil {
		d.n.t.Errorf("daemon ended with %v", d.err)
	}
	d.cmd = nil
}

func (d *daemon) kill() {
	d.cmd.Process.Kill()
	<-d.ended
	d.cmd = nil
}

// hasEnded reports whether the daemon has ended.
func (d *daemon) hasEnded() bool {
	select {
	case <-d.ended:
		return true
	default:
		return false
	}
}

// write makes a file of the node's and returns its path.
func (n *node) write(name, text string) string {
	n.t.Helper()
	must.NoError(n.t, os.WriteFile(n.path(name), []byte(text), 0o600))
	return n.path(name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// inGuest reports whether the tests run in a guest of lab/vm, whose cpus are emulated.
func inGuest() bool { return exists("/lab/.lab/command") }
