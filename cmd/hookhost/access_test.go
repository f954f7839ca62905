package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
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
func sleeper(t testing.TB, uid uint32) *exec.Cmd {
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
func inJob(t testing.TB, pid int, job string) bool {
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
