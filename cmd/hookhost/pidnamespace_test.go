package main_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A caller in another pid namespace, as in a container, has a number there that is another
// process's here. The process that is taken in is the one that calls, and CMD never runs outside of
// the job.
func TestAttachFromAnotherPIDNamespaceTakesTheCallerIn(t *testing.T) {
	n := newNode(t)
	n.open()
	n.serve()
	const job = "7.node"
	n.beginFor(t, job)
	// As the owner, from a process with the number of one that the owner has outside of the
	// namespace.
	other := sleeper(t, ownerUID)
	env := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOOKHOST_SOCKET=" + n.path("run/s")}
	in := func(r result) bool { // by what its standard output says
		return filepath.Base(cgroupOf(r.stdout, "memory")) == job
	}
	inside := func(script string) result {
		script = fmt.Sprintf(`echo %d >/proc/sys/kernel/ns_last_pid
			setpriv --reuid=%d --regid=%d --clear-groups -- sh -c '%s'
			exit $?`, other.Process.Pid-1, ownerUID, ownerUID, script)
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir, cmd.Env = "/", env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWPID}
		return n.finish(cmd)
	}
	if r := inside("echo $$"); strings.TrimSpace(r.stdout) != fmt.Sprint(other.Process.Pid) {
		t.Fatalf("the number in the namespace is %q, want %d", r.stdout, other.Process.Pid)
	}
	for name, program := range map[string]string{"pbs-attach": "pbs-attach", "hookhost": "hookhost attach"} {
		program = filepath.Join(built, program) + " -j " + job
		for how, options := range map[string]string{"": "", " in a session": " -s", " with its parent": " -P"} {
			r := inside("exec " + program + options + " -- sh -c \"cat /proc/self/cgroup; exit 4\"")
			if r.status != 4 || !in(r) {
				t.Errorf("%s%s: %+v", name, how, r)
			}
		}
		if r := inside("exec " + program + fmt.Sprintf(" -p %d", other.Process.Pid)); r.status != 0 {
			t.Errorf("%s, by its own number: %+v", name, r)
		}
		for _, pid := range []int{1, 2, other.Process.Pid} { // its own is another one, since the shell waits for it
			if r := inside(program + fmt.Sprintf(" -p %d", pid)); r.status == 0 {
				t.Errorf("%s: process %d of the namespace was attached: %+v", name, pid, r)
			}
		}
	}
	first := exec.Command(filepath.Join(built, "pbs-attach"), "-j", job, "--", "cat", "/proc/self/cgroup")
	first.Dir, first.Env = "/", env
	first.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWPID,
		Credential: &syscall.Credential{Uid: ownerUID, Gid: ownerUID}}
	if r := n.finish(first); r.status != 0 || !in(r) {
		t.Errorf("the first process of a namespace: %+v", r)
	}
	if inJob(t, other.Process.Pid, job) {
		t.Error("the process that has the number here is in the job")
	}
}
