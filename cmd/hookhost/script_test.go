package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// A script of testdata/script is a test of the built programs. Its folder is a node: hookhost.toml,
// to which the node's cgroup prefix is added, the state, and the socket. docs/testing.md lists the
// commands that scripts have beside those of testscript.
func TestScript(t *testing.T) {
	kernfstest.NeedRoot(t)
	must.BesideOthers(t)
	root, err := os.MkdirTemp("", "hh") // the paths of sockets have to be short
	must.NoError(t, err, os.Chmod(root, 0o711))
	t.Cleanup(func() { os.RemoveAll(root) })
	deadline, _ := t.Deadline()
	testscript.RunT(scripts{t}, testscript.Params{Dir: "testdata/script", WorkdirRoot: root, RequireUniqueNames: true,
		Setup: setUpNode, Deadline: deadline,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon": plain(scriptDaemon), "exits": plain(scriptExits), "error": plain(scriptError),
			"archive": plain(scriptArchive), "sleeper": plain(scriptSleeper), "pbsserver": plain(scriptPBSServer),
			"qmgr": plain(scriptQmgr), "registration": plain(scriptRegistration),
			"event": scriptEvent, "output": scriptOutput, "waitfor": scriptWaitFor,
			"cgroup": scriptCgroup, "injob": scriptInJob, "frozen": scriptFrozen,
		}})
}

// plain is a command that takes no `!`.
func plain(f func(*testscript.TestScript, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg {
			ts.Fatalf("this command takes no !")
		}
		f(ts, args)
	}
}

// scripts has scripts run beside others where other tests do.
type scripts struct{ *testing.T }

func (s scripts) Run(name string, f func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { f(scripts{t}) })
}
func (s scripts) Parallel()     { must.BesideOthers(s.T) }
func (s scripts) Verbose() bool { return testing.Verbose() }

// scriptNode is the node of a script, with its daemon.
type scriptNode struct {
	*node
	daemon *daemon
}

func setUpNode(env *testscript.Env) error {
	config := filepath.Join(env.WorkDir, "hookhost.toml")
	text, err := os.ReadFile(config)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	n := newNodeIn(env.T().(scripts).T, env.WorkDir, string(text))
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		return err
	}
	env.Values["node"] = &scriptNode{node: n}
	env.Defer(n.killProcessesOfAFailure)
	env.Defer(func() { // mounted by hook private for as long as the node runs
		unix.Unmount(n.path("run/ns"), unix.MNT_DETACH)
	})
	if deadline, ok := n.t.(*testing.T).Deadline(); ok {
		// testscript signals only the shell of a command that has one, a little before this.
		kill := time.AfterFunc(time.Until(deadline)*19/20, n.killClients)
		env.Defer(func() { kill.Stop() })
	}
	env.Vars = append(env.Vars, n.env()[len(os.Environ()):]...)
	for name, value := range map[string]string{"PATH": built + ":" + os.Getenv("PATH"), "TMPDIR": os.TempDir(),
		"BUILT": built, "TESTDATA": testdata, "PREFIX": n.prefix} {
		env.Setenv(name, value)
	}
	n.open()
	return nil
}

// killProcessesOfAFailure ends what a script that failed has left. testscript waits for background
// commands, and so until every process that has inherited their output has ended.
func (n *node) killProcessesOfAFailure() {
	if !n.t.Failed() {
		return
	}
	defer n.removeCgroups()
	defer n.killClients()
	n.endDaemon()
}

// killClients kills the processes whose environment names the node's folder, except its daemon.
func (n *node) killClients() {
	daemon := n.owner()
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		b, _ := os.ReadFile(file)
		environ := string(b)
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		if err == nil && pid != os.Getpid() && pid != daemon &&
			(strings.Contains(environ, "="+n.dir+"/") || strings.Contains(environ, "="+n.dir+"\x00")) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func nodeOf(ts *testscript.TestScript) *scriptNode { return ts.Value("node").(*scriptNode) }

// scriptDaemon is `daemon start|stop|kill|reload`. The variable DAEMON has its pid.
func scriptDaemon(ts *testscript.TestScript, args []string) {
	n := nodeOf(ts)
	switch strings.Join(args, " ") {
	case "start":
		n.daemon = n.serve()
		ts.Setenv("DAEMON", strconv.Itoa(n.daemon.cmd.Process.Pid))
	case "stop":
		n.daemon.stop()
	case "kill":
		n.daemon.kill()
	case "reload":
		ts.Check(n.daemon.cmd.Process.Signal(syscall.SIGHUP))
	default:
		ts.Fatalf("usage: daemon start|stop|kill|reload")
	}
}

// users are those of `as`. Every Debian has them, and they own nothing here.
var users = map[string]uint32{"owner": ownerUID, "stranger": strangerUID}

// run executes a program. After `as USER` it is that user's, as from a shell elsewhere.
func run(ts *testscript.TestScript, args []string) (status int, stdout, stderr string) {
	if len(args) > 2 && args[0] == "as" {
		uid := fmt.Sprint(users[args[1]])
		args = append([]string{"setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "env", "-i", "-C", "/",
			"PATH=" + ts.Getenv("PATH"), "HOOKHOST_SOCKET=" + ts.Getenv("HOOKHOST_SOCKET"),
			"HOOKHOST_CONFIG=/nonexistent"}, args[2:]...)
	}
	if len(args) == 0 {
		ts.Fatalf("no program")
	}
	err := ts.Exec(args[0], args[1:]...)
	if exit, ok := err.(*exec.ExitError); ok {
		status = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	return status, ts.ReadFile("stdout"), ts.ReadFile("stderr")
}

// scriptExits is `exits STATUS [as USER] PROGRAM ARG...`.
func scriptExits(ts *testscript.TestScript, args []string) {
	status, _, _ := run(ts, args[1:])
	if got := strconv.Itoa(status); got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

// scriptError is `error STATUS TEXT [as USER] PROGRAM ARG...`: one line of standard error, of
// hookhost, has TEXT, and nothing is on standard output.
func scriptError(ts *testscript.TestScript, args []string) {
	status, stdout, stderr := run(ts, args[2:])
	if got := strconv.Itoa(status); got != args[0] || stdout != "" || strings.Count(stderr, "\n") != 1 ||
		len(stderr) > 500 || !strings.HasPrefix(stderr, "hookhost: ") || !strings.Contains(stderr, args[1]) {
		ts.Fatalf("exit status %s, want %s and one line of hookhost's with %q", got, args[0], args[1])
	}
}

// scriptOutput is `output TEXT [as USER] PROGRAM ARG...`: the program succeeds, and its output has
// TEXT, where spaces and line ends are one space.
func scriptOutput(ts *testscript.TestScript, neg bool, args []string) {
	status, stdout, stderr := run(ts, args[1:])
	has := strings.Contains(strings.Join(strings.Fields(stdout+stderr), " "), args[0])
	if status != 0 || has == neg {
		ts.Fatalf("exit status %d; has %q: %t", status, args[0], has)
	}
}

// scriptWaitFor is `waitfor TEXT [as USER] PROGRAM ARG...`: output, again and again until it is so.
func scriptWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	must.Eventually(nodeOf(ts).t, strings.Join(args, " "), func() bool {
		status, stdout, stderr := run(ts, args[1:])
		return status == 0 && strings.Contains(strings.Join(strings.Fields(stdout+stderr), " "), args[0]) != neg
	})
}

// scriptEvent is `event EVENT JOB [MEMBER...]`: an event of a job of nobody's is accepted. Each
// MEMBER is added to the event's JSON.
func scriptEvent(ts *testscript.TestScript, neg bool, args []string) {
	job := fmt.Sprintf(`"job":{"id":%q,"name":"x","owner":{"user":"nobody","uid":%[2]d,"gid":%[2]d},`+
		`"resource_list":{"ncpus":1,"mem":"64mb"}}`, args[1], ownerUID)
	text := "{" + strings.Join(append([]string{job}, args[2:]...), ",") + "}"
	status, _, _ := run(ts, []string{"hookhost", "event", args[0], "--input", nodeOf(ts).write("event.json", text)})
	if status > 1 || (status == 1) != neg {
		ts.Fatalf("exit status %d", status)
	}
}

// scriptArchive is `archive JOB [USER UID AGO STATUS HOST]`: a job that ended so long ago.
func scriptArchive(ts *testscript.TestScript, args []string) {
	args = append(args, []string{"nobody", "65534", "1h", "0", "n1"}[len(args)-1:]...)
	uid, err := strconv.Atoi(args[2])
	ts.Check(err)
	ago, err := time.ParseDuration(args[3])
	ts.Check(err)
	status, err := strconv.Atoi(args[4])
	ts.Check(err)
	nodeOf(ts).ended(args[0], args[1], uid, ago, status, args[5])
}

// scriptCgroup is `cgroup JOB`: the job has its cgroup; with "*" any job.
func scriptCgroup(ts *testscript.TestScript, neg bool, args []string) {
	n := nodeOf(ts)
	dirs := append(n.cgroups("/jobid/"+args[0]+"/cgroup.procs"), n.cgroups("/jobs/"+args[0]+"/cgroup.procs")...)
	if (len(dirs) == 0) != neg {
		ts.Fatalf("cgroups: %v", dirs)
	}
}

// scriptSleeper is `sleeper NAME [USER]`: a process in a session of its own, root's or a user's.
// The variable NAME has its pid.
func scriptSleeper(ts *testscript.TestScript, args []string) {
	var uid uint32
	if len(args) > 1 {
		uid = users[args[1]]
	}
	ts.Setenv(args[0], strconv.Itoa(sleeper(nodeOf(ts).t, uid).Process.Pid))
}

// scriptInJob is `injob PID JOB`: the process is in the job's cgroup, by each controller.
func scriptInJob(ts *testscript.TestScript, neg bool, args []string) {
	pid, err := strconv.Atoi(args[0])
	ts.Check(err)
	if inJob(nodeOf(ts).t, pid, args[1]) == neg {
		ts.Fatalf("process %d in job %s: %t", pid, args[1], neg)
	}
}

// scriptFrozen is `frozen JOB`: the kernel says that the job is frozen.
func scriptFrozen(ts *testscript.TestScript, neg bool, args []string) {
	if nodeOf(ts).frozen(args[0]) == neg {
		ts.Fatalf("frozen: %t", neg)
	}
}

// ended is a job that ended so long ago.
func (n *node) ended(id, user string, uid int, ago time.Duration, status int, host string) {
	n.t.Helper()
	oom := 0
	if status == 137 {
		oom = 1
	}
	end := time.Now().Add(-ago).Truncate(time.Second)
	n.archived(map[string]any{
		"job": id, "name": "x", "owner": user, "start": end.Add(-time.Minute), "end": end, "exit_status": status,
		"hosts":   map[string]any{host: map[string]any{"ncpus": 1, "oom_kills": oom}},
		"pbs_job": hostapi.Job{ID: id, Owner: hostapi.Owner{User: user, UID: uid, GID: uid}},
	})
}
