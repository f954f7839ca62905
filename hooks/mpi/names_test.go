package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// The names of a process and its parent hide no stray.
func TestNamesHideNoStray(t *testing.T) {
	kernfstest.NeedRoot(t)
	procfs, err := kernfs.Open("/proc")
	must.NoError(t, err)
	if own, err := os.ReadFile("/proc/self/cgroup"); err == nil && strings.Contains(string(own), ".service") {
		kernfstest.Elsewhere(t, "what runs in a service of systemd is no stray")
	}
	const uid = 23461
	dir, err := os.MkdirTemp("", "hhtest_names")
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.NoError(t, os.Chmod(dir, 0o755))
	program := func(of, name string) string {
		b, err := os.ReadFile(of)
		must.NoError(t, err)
		path := filepath.Join(dir, name)
		must.NoError(t, os.WriteFile(path, b, 0o755))
		return path
	}
	var pids []int
	start := func(path string, args ...string) {
		t.Helper()
		cmd := exec.Command(path, args...)
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		must.NoError(t, cmd.Start())
		t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); cmd.Wait() })
		pids = append(pids, cmd.Process.Pid)
	}
	for _, name := range []string{"hookhost", "hookhost-remsh", "sshd", "systemd", "(sd-pam)", "qsub"} {
		start(program("/bin/sleep", name), "1000")
	}
	parents := filepath.Join(dir, "parents")
	must.NoError(t, os.Mkdir(parents, 0o755))
	for _, name := range []string{"systemd", "su", "sshd", "cron", "hookhost"} {
		start(program("/bin/bash", "parents/"+name), "-c", "sleep 1000 & wait")
	}
	nobody := func(int) (string, bool, error) { return "", false, nil }
	log := logrus.New()
	log.SetOutput(t.Output())
	s := newStrays(adoptStrays, reader(procfs, nobody), func(string) ([]int, error) { return nil, nil },
		logrus.NewEntry(log))
	jobs := map[string]*hostapi.Job{"7.srv": {ID: "7.srv", Owner: hostapi.Owner{UID: uid}}}
	found := ""
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		found += scanOnce(t, s, jobs, false)
		missing := slices.DeleteFunc(slices.Clone(pids),
			func(pid int) bool { return strings.Contains(found, fmt.Sprintf("pid %d (", pid)) })
		if len(missing) == 0 && strings.Count(found, "(sleep) of the job's owner is outside") == 5 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v and children are hidden; found:\n%s", missing, found)
		}
	}
}

// A process that came by ssh is reported unless a job or root's programs say where it is from: its
// environment is its user's.
func TestWhatCameBySSHIsReported(t *testing.T) {
	m := newMachine(t)
	gone := "SSH_CONNECTION=127.0.0.1 50000 127.0.0.1 22"
	note := func(pid int) string {
		return fmt.Sprintf("7.srv: pid %d (sleep) of the job's owner is outside of the job: it came by ssh, and "+
			"nothing says from which job or login", pid)
	}
	m.process(10, 1, 0, "sshd")
	m.process(40, 10, owner, "sleep", ssh) // a login, maybe
	m.process(41, 1, owner, "sleep", gone) // what ssh localhost 'setsid -f sleep' leaves
	m.process(42, 1, owner, "sleep", ssh)  // claims a connection that there is
	m.process(43, 1, owner, "sleep")       // env -i
	s := m.strays(adoptStrays)
	unknown := "7.srv: pid 43 (sleep) of the job's owner is outside of the job: nothing says what it belongs to"
	want(t, "first", scanOnce(t, s, list("7.srv"), false),
		"7.srv: 40 sleep origin 10.0.0.1:40000", "7.srv: 42 sleep origin 10.0.0.1:40000", note(41), unknown,
		"7.srv: 2 strays")
	want(t, "the host has not taken it in", scanOnce(t, s, list("7.srv"), false),
		"7.srv: 40 sleep origin 10.0.0.1:40000", "7.srv: 42 sleep origin 10.0.0.1:40000", note(42), "7.srv: 3 strays")
	for _, action := range []string{reportStrays, killStrays} {
		want(t, action, scanOnce(t, m.strays(action), list("7.srv"), false), note(41), note(42), unknown,
			"7.srv: 3 strays")
	}
}

// A process that a job has sent to its own host is known where the host is not asked, too.
func TestWhatCameFromThisHostIsReported(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer listener.Close()
	c, err := net.Dial("tcp", listener.Addr().String())
	must.NoError(t, err)
	defer c.Close()
	accepted, err := listener.Accept()
	must.NoError(t, err)
	defer accepted.Close()
	local, remote := c.LocalAddr().(*net.TCPAddr), c.RemoteAddr().(*net.TCPAddr)
	m := newMachine(t)
	table, err := os.ReadFile("/proc/net/tcp")
	must.NoError(t, err)
	m.write("net/tcp", string(table))
	uid := os.Getuid()
	if uid == 0 { // root's is no stray
		m.write("net/tcp", strings.ReplaceAll(string(table), "     0        0 ", fmt.Sprintf("%6d        0 ", owner)))
		uid = owner
	}
	m.process(20, 1, uid, "mine") // which has this one's descriptors
	must.NoError(t, copyLinks("/proc/self/fd", filepath.Join(m.dir, "20/fd")))
	m.in[20] = "7.srv"
	m.process(10, 1, 0, "sshd")
	m.process(40, 10, uid, "sleep", fmt.Sprintf("SSH_CONNECTION=127.0.0.1 %d 127.0.0.1 %d", local.Port, remote.Port))
	jobs := map[string]*hostapi.Job{"7.srv": {ID: "7.srv", Owner: hostapi.Owner{UID: uid}},
		"8.srv": {ID: "8.srv", Owner: hostapi.Owner{UID: uid}}}
	want(t, "report", scanOnce(t, m.strays(reportStrays), jobs, false),
		"7.srv: pid 40 (sleep) of the job's owner is outside of the job: it belongs to the job by its origin",
		"7.srv: 1 strays")
}

// copyLinks makes links in a directory that say what those of another do.
func copyLinks(from, to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join(from, e.Name())); err == nil {
			if err := os.Symlink(target, filepath.Join(to, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
