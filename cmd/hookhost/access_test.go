package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// Two users that every Debian has and that own nothing here.
const (
	ownerUID    = 65534 // nobody
	strangerUID = 65533
)

// userOf has a command run as a user.
func userOf(uid uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}

// sessionOf has it lead a session as well.
func sessionOf(uid uint32) *syscall.SysProcAttr {
	attr := userOf(uid)
	attr.Setsid = true
	return attr
}

// as runs a command as another user. The node's own folder is closed to others; the socket is not.
func (n *node) as(uid uint32, args ...string) result {
	n.t.Helper()
	cmd := n.command(args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOOKHOST_SOCKET=" + n.path("run/s"), "HOOKHOST_CONFIG=/nonexistent"}
	cmd.SysProcAttr = userOf(uid)
	return n.finish(cmd)
}

// sleeper starts a process of uid in a session of its own.
func sleeper(t *testing.T, uid uint32) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = sessionOf(uid)
	must.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// event sends an event of a job of nobody's; more comes to the event's JSON.
func (n *node) event(name, job string, more string) result {
	n.t.Helper()
	return n.eventOf(name, job, `"ncpus":1,"mem":"64mb"`, more)
}

// eventOf is event for a job that asks for other resources.
func (n *node) eventOf(name, job, resources, more string) result {
	n.t.Helper()
	return n.send(name, fmt.Sprintf(`{"event":%q,"job":{"id":%q,"name":"x","owner":{"user":"nobody","uid":%d,"gid":%d},"resource_list":{%s}}%s}`,
		name, job, ownerUID, ownerUID, resources, more))
}

// inJob reports whether a process is in a job's cgroup, by every controller that the job needs.
func inJob(t *testing.T, pid int, job string) bool {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	must.NoError(t, err)
	controllers := []string{"memory", "cpuset", "cpu", "pids"}
	in := 0
	for _, c := range controllers {
		if path.Base(cgroupOf(string(b), c)) == job {
			in++
		}
	}
	if in > 0 && in < len(controllers) {
		t.Errorf("pid %d is in job %s by some of %v only: %s", pid, job, controllers, b)
	}
	return in > 0
}

func TestJobIsOpenToItsOwnerAlone(t *testing.T) {
	n := newNode(t)
	n.open()
	n.serve()
	const job = "7.node"
	if r := n.event("execjob_begin", job, ""); r.status != 0 {
		t.Fatal("begin was rejected")
	}
	t.Cleanup(func() { n.t = t; n.event("execjob_end", job, "") })
	own, foreign := sleeper(t, ownerUID), sleeper(t, strangerUID)

	t.Run("a stranger cannot attach to the job", func(t *testing.T) {
		n.t = t
		for _, pid := range []int{own.Process.Pid, foreign.Process.Pid} {
			if r := n.as(strangerUID, "attach", "-j", job, "-p", fmt.Sprint(pid)); r.status != 1 ||
				!strings.Contains(r.stderr, "tm_attach: TM_E") {
				t.Errorf("pid %d: status %d, stderr %q", pid, r.status, r.stderr)
			}
			if inJob(t, pid, job) {
				t.Errorf("pid %d is in the job", pid)
			}
		}
	})
	t.Run("a stranger learns nothing", func(t *testing.T) {
		n.t = t
		theirs, none := n.as(strangerUID, "report", job), n.as(strangerUID, "report", "8.node")
		if theirs.status == 0 || strings.ReplaceAll(theirs.stderr, job, "8.node") != none.stderr {
			t.Errorf("a job of somebody else: %q; no job at all: %q", theirs.stderr, none.stderr)
		}
		if r := n.as(strangerUID, "jobs"); r.status != 0 || strings.Contains(r.stdout, job) {
			t.Errorf("jobs: %q", r.stdout)
		}
	})
	t.Run("others than root send no events and change no hooks", func(t *testing.T) {
		n.t = t
		cmd := n.command("event", "execjob_end")
		cmd.Dir = "/"
		cmd.Env = []string{"HOOKHOST_SOCKET=" + n.path("run/s"), "HOOKHOST_CONFIG=/nonexistent"}
		cmd.Stdin = strings.NewReader(`{"event":"execjob_end","job":{"id":"` + job +
			`","owner":{"user":"nobody","uid":65534,"gid":65534}}}`)
		cmd.SysProcAttr = userOf(ownerUID)
		if r := n.finish(cmd); r.status == 0 {
			t.Error("the owner ended the job by an event")
		}
		if len(n.jobDirs()) == 0 {
			t.Error("the job's cgroup is gone")
		}
	})
	t.Run("the owner attaches own processes and reads the report", func(t *testing.T) {
		n.t = t
		if r := n.as(ownerUID, "attach", "-j", job, "-p", fmt.Sprint(foreign.Process.Pid)); r.status != 1 ||
			inJob(t, foreign.Process.Pid, job) {
			t.Errorf("the owner attached a stranger's process: status %d", r.status)
		}
		if r := n.as(ownerUID, "attach", "-p", fmt.Sprint(own.Process.Pid)); r.status != 0 || r.stdout+r.stderr != "" {
			t.Errorf("status %d, output %q%q", r.status, r.stdout, r.stderr)
		}
		if !inJob(t, own.Process.Pid, job) {
			t.Error("the process is not in the job")
		}
		if r := n.as(ownerUID, "report", job, "--format", "json"); r.status != 0 ||
			decodeReport(t, r.stdout).Job != job {
			t.Errorf("report: status %d, %q", r.status, r.stderr)
		}
		if r := n.as(ownerUID, "jobs"); !strings.Contains(r.stdout, job) {
			t.Errorf("jobs: %q", r.stdout)
		}
	})
	t.Run("attach runs a command in the job", func(t *testing.T) {
		n.t = t
		r := n.as(ownerUID, "attach", "-j", job, "sh", "-c", "cat /proc/self/cgroup; exit 4")
		if r.status != 4 || path.Base(cgroupOf(r.stdout, "memory")) != job {
			t.Errorf("status %d, stdout %q", r.status, r.stdout)
		}
		r = n.as(ownerUID, "attach", "-s", "-j", job, "sh", "-c", "cat /proc/self/cgroup; kill -9 $$")
		if r.status != 2 || path.Base(cgroupOf(r.stdout, "memory")) != job {
			t.Errorf("-s: status %d, stdout %q", r.status, r.stdout)
		}
	})
	t.Run("the end takes all of it", func(t *testing.T) {
		n.t = t
		if r := n.event("execjob_epilogue", job, ""); r.status != 0 {
			t.Errorf("epilogue: status %d", r.status)
		}
		if r := n.event("execjob_end", job, ""); r.status != 0 {
			t.Errorf("end: status %d", r.status)
		}
		own.Wait()
		if s := own.ProcessState.Sys().(syscall.WaitStatus); s.Signal() != syscall.SIGKILL {
			t.Errorf("the attached process ended with %v", s)
		}
		r := n.hookhost("report", job, "--format", "json")
		for _, h := range decodeReport(t, r.stdout).Hosts {
			if h.Attached < 1 || h.Kill == nil {
				t.Errorf("report: %+v", h)
			}
		}
		if r := n.as(strangerUID, "report", job); r.status == 0 {
			t.Error("a stranger reads the report of the finished job")
		}
		if r := n.as(ownerUID, "report"); r.status != 0 || !strings.Contains(r.stdout, job) {
			t.Errorf("the owner's finished jobs: status %d, %q, %q", r.status, r.stdout, r.stderr)
		}
		if r := n.as(strangerUID, "report"); r.status != 0 || strings.Contains(r.stdout, job) {
			t.Errorf("a stranger's finished jobs: status %d, %q", r.status, r.stdout)
		}
	})
}

// The sweep at start removes what no job owns and nothing else. Processes that somebody else's
// hook has put at such a place, as OpenPBS's own does on v1, go on until the end of their job.
func TestOrphansAreRemovedAtStart(t *testing.T) {
	n := newNode(t)
	d := n.serve()
	if r := n.event("execjob_begin", "7.node", ""); r.status != 0 {
		t.Fatal("begin was rejected")
	}
	d.stop()
	orphan, others := n.memoryDir("8.node"), n.memoryDir("9.node")
	must.NoError(t, errors.Join(os.Mkdir(orphan, 0o755), os.Mkdir(others, 0o755)))
	process := sleeper(t, 0)
	must.NoError(t, os.WriteFile(others+"/cgroup.procs", []byte(fmt.Sprint(process.Process.Pid)), 0))
	n.serve()
	must.Eventually(t, "the orphan is removed", func() bool { return !exists(orphan) })
	if !exists(n.memoryDir("7.node")) {
		t.Error("the sweep removed a job")
	}
	if !exists(others) || process.Process.Signal(syscall.Signal(0)) != nil {
		t.Error("the sweep removed what it had not made")
	}
	if r := n.event("execjob_end", "9.node", ""); r.status != 0 || exists(others) {
		t.Errorf("end of a job that somebody else has begun: status %d; its cgroup is there: %t", r.status,
			exists(others))
	}
	process.Wait()
	n.event("execjob_end", "7.node", "")
}

// State that was damaged or deleted costs no job its life: the cgroup says what job it is.
func TestStateIsRebuiltFromCgroups(t *testing.T) {
	for _, how := range []string{"damaged", "deleted"} {
		t.Run(how, func(t *testing.T) {
			n := newNode(t)
			d := n.serve()
			const job = "7.node"
			if r := n.event("execjob_begin", job, ""); r.status != 0 {
				t.Fatal("begin was rejected")
			}
			p := sleeper(t, ownerUID)
			if r := n.hookhost("attach", "-j", job, "-p", fmt.Sprint(p.Process.Pid)); r.status != 0 {
				t.Fatal("attach was rejected")
			}
			d.kill()
			var err error
			if how == "damaged" {
				err = os.WriteFile(n.path("run/jobs/"+n.prefix+"/"+job+".json"),
					[]byte(strings.Repeat("rubbish", 5000)), 0o600)
			} else {
				err = errors.Join(os.RemoveAll(n.path("state")), os.RemoveAll(n.path("run/jobs")))
			}
			must.NoError(t, err)
			n.serve()
			if r := n.hookhost("jobs"); !strings.Contains(r.stdout, job) {
				t.Errorf("jobs: %q", r.stdout)
			}
			if !inJob(t, p.Process.Pid, job) || p.Process.Signal(syscall.Signal(0)) != nil {
				t.Error("the job's process was not left alone")
			}
			if r := n.event("execjob_end", job, ""); r.status != 0 {
				t.Errorf("end: status %d", r.status)
			}
			for _, h := range decodeReport(t, n.hookhost("report", job, "--format=json").stdout).Hosts {
				if h.NCPUs != 1 || h.CPUTSeconds == nil || h.Kill == nil || h.Kill.Stragglers != 1 {
					t.Errorf("report: %+v", h)
				}
			}
		})
	}
}
