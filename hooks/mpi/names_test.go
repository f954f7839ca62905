package main

import (
	"fmt"
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

// No name of a process or its parent can hide a stray.
func TestNamesHideNoStray(t *testing.T) {
	kernfstest.NeedRoot(t)
	procfs, err := kernfs.Open("/proc")
	must.NoError(t, err)
	if own, err := os.ReadFile("/proc/self/cgroup"); err == nil && strings.Contains(string(own), ".service") {
		kernfstest.Elsewhere(t, "what runs in a service of systemd is no stray")
	}
	uid := uint32(20001 + 2*(os.Getpid()%10_000)) // no other run has it
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
	jobs := map[string]*hostapi.Job{"7.srv": {ID: "7.srv", Owner: hostapi.Owner{UID: int(uid)}}}
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
