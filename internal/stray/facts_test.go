package stray

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

// fixture is a /proc of a few processes.
type fixture struct {
	t   *testing.T
	dir string
}

func newFixture(t *testing.T) *fixture { return &fixture{t, t.TempDir()} }

func (f *fixture) open() *kernfs.FS {
	f.t.Helper()
	procfs, err := kernfs.Open(f.dir)
	must.NoError(f.t, err)
	return procfs
}

func (f *fixture) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	must.NoError(f.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.NoError(f.t, os.WriteFile(path, []byte(text), 0o644))
}

// process adds one that began so many ticks after boot.
func (f *fixture) process(pid, ppid, sid, uid, start int, comm, cgroup string, environ ...string) {
	f.t.Helper()
	dir := strconv.Itoa(pid) + "/"
	f.write(dir+"stat", fmt.Sprintf("%d (%s) S %d %d %d 34816 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0\n", pid, comm,
		ppid, pid, sid, start))
	f.write(dir+"status", fmt.Sprintf("Name:\t%s\nUid:\t%d\t%d\t%d\t%d\nGid:\t%d\t%d\t%d\t%d\n", comm, uid, uid, uid,
		uid, uid, uid, uid, uid))
	f.write(dir+"cgroup", cgroup)
	f.write(dir+"environ", strings.Join(environ, "\x00")+"\x00")
	exe := filepath.Join(f.dir, dir, "exe")
	os.Remove(exe)
	must.NoError(f.t, os.Symlink(f.file(comm), exe))
}

// file is an executable.
func (f *fixture) file(name string) string {
	f.t.Helper()
	name = filepath.Join("bin", filepath.Base(name))
	if path := filepath.Join(f.dir, name); exists(path) {
		return path
	}
	f.write(name, "")
	return filepath.Join(f.dir, name)
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func jobOf(in map[int]string) func(int) (string, bool, error) {
	return func(pid int) (string, bool, error) { id, ok := in[pid]; return id, ok, nil }
}

func reader(procfs *kernfs.FS, jobOf func(int) (string, bool, error)) *Reader {
	return &Reader{Procfs: procfs, JobOf: jobOf, Environ: proc.NewEnvirons(procfs).Read}
}

func TestReadCollectsTheFactsOfProc(t *testing.T) {
	f := newFixture(t)
	f.process(1, 0, 1, 0, 0, "init", "0::/init.scope\n")
	f.process(20, 1, 20, 0, 10, "sshd", "0::/system.slice/ssh.service\n")
	f.process(30, 20, 30, 0, 20, "sshd", "0::/x\n")
	f.process(31, 30, 30, 1000, 21, "sshd", "0::/x\n")
	f.process(32, 31, 32, 1000, 22, "bash) S 1 (", "0::/x\n")
	f.process(33, 32, 32, 1000, 23, "sleep", "1:name=systemd:/y\n0::/x\n", "A=PBS_JOBID=1.srv", "PBS_JOBID=77[3].srv",
		"PBS_JOBID=78.srv")
	f.process(34, 999, 998, 1000, 24, "lost", "0::/x\n", "PBS_JOBID=../etc")
	f.process(35, 36, 36, 1000, 25, "orphan", "0::/x\n")
	f.process(36, 1, 36, 1001, 99, "thief", "0::/x\n") // has the number of a parent that is gone
	f.write("33/loginuid", "1000")
	f.write("34/loginuid", "4294967295")
	procfs := f.open()
	in := map[int]string{32: "77[3].srv", 20: "12.srv"}
	read := func(pid int) Facts {
		t.Helper()
		p, err := proc.Read(procfs, pid)
		must.NoError(t, err)
		got, err := reader(procfs, jobOf(in)).Read(p)
		must.NoError(t, err)
		if got.Age <= 0 {
			t.Errorf("age %v", got.Age)
		}
		got.Age = 0
		return got
	}
	exe := func(name string) kernfs.FileID {
		id, err := kernfs.FileOf(f.file(name))
		must.NoError(t, err)
		return id
	}
	want := Facts{
		Process: proc.Process{PID: 33, StartTime: 23, PPID: 32, PGRP: 33, Session: 32, TTY: 34816, UID: 1000,
			EUID: 1000, GID: 1000, Comm: "sleep", State: 'S', Threads: 1},
		JobID: "77[3].srv", Cgroup: "1:name=systemd:/y\n0::/x\n",
		Exe: exe("sleep"),
		Chain: []Relative{{PID: 32, UID: 1000, In: "77[3].srv"}, {PID: 31, UID: 1000},
			{PID: 30, Program: "sshd", Exe: exe("sshd")}, {PID: 20, Program: "sshd", Exe: exe("sshd")},
			{PID: 1, Program: "init", Exe: exe("init")}},
	}
	leader := want.Chain[0]
	want.Leader = &leader
	must.Equal(t, "", want, read(33))
	lost := read(34)
	if lost.JobID != "" || lost.Chain != nil || lost.Leader != nil || !lost.NoLogin {
		t.Errorf("%+v", lost)
	}
	orphan := read(35)
	if orphan.Chain != nil || orphan.NoLogin {
		t.Errorf("%+v", orphan)
	}
	// The process is gone in the last case, and another process or user has its pid in the others.
	p, err := proc.Read(procfs, 34)
	must.NoError(t, err)
	for name, change := range map[string]func(){
		"began later": func() { f.process(34, 1, 34, 1000, 100, "lost", "0::/x\n") },
		"of another":  func() { f.process(34, 1, 34, 1001, 24, "lost", "0::/x\n") },
		"gone":        func() { os.RemoveAll(filepath.Join(f.dir, "34")) },
	} {
		change()
		if got, err := reader(procfs, jobOf(nil)).Read(p); !errors.Is(err, proc.ErrGone) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	broken := errors.New("broken")
	p33, err := proc.Read(procfs, 33)
	must.NoError(t, err)
	if _, err := reader(procfs, func(int) (string, bool, error) { return "", false, broken }).Read(p33); !errors.Is(err,
		broken) {
		t.Errorf("the cgroups cannot be read: %v", err)
	}
}

// The process of this test, as the kernel has it.
func TestReadSelf(t *testing.T) {
	procfs, err := kernfs.Open("/proc")
	must.NoError(t, err)
	p, err := proc.Read(procfs, os.Getpid())
	must.NoError(t, err)
	f, err := reader(procfs, jobOf(nil)).Read(p)
	if err != nil || f.Cgroup == "" || f.Age < 0 || f.Age > 24*time.Hour {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestReadWithoutExecutable: a process is known by everything else if the file system of its
// executable fails. FUSE does with EIO, once its user has changed the file's type. Here a link to
// itself fails.
func TestReadWithoutExecutable(t *testing.T) {
	f := newFixture(t)
	f.process(1, 0, 1, 0, 0, "init", "0::/init.scope\n")
	f.process(33, 1, 33, 1000, 23, "sleep", "0::/x\n", "PBS_JOBID=78.srv")
	exe := filepath.Join(f.dir, "33/exe")
	must.NoError(t, os.Remove(exe))
	must.NoError(t, os.Symlink("exe", exe))
	procfs := f.open()
	p, err := proc.Read(procfs, 33)
	must.NoError(t, err)
	got, err := reader(procfs, jobOf(nil)).Read(p)
	if err != nil || got.JobID != "78.srv" || got.Exe != (kernfs.FileID{}) || len(got.Chain) == 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A process whose first thread has ended is a stray as others are.
func TestStrayWithoutFirstThread(t *testing.T) {
	procfs, err := kernfs.Open("/proc")
	must.NoError(t, err)
	started := proctest.StartHeadless(t, nil, "PBS_JOBID=7.srv")
	p, err := proc.Read(procfs, started.PID)
	must.NoError(t, err)
	f, err := reader(procfs, jobOf(nil)).Read(p)
	must.NoError(t, err)
	if f.JobID != "7.srv" || f.Cgroup == "" {
		t.Errorf("%+v", f)
	}
	f.UID, f.Age, f.Chain, f.Leader, f.TTY, f.Cgroup = 1000, Young, nil, nil, 0, "0::/\n"
	must.Equal(t, "verdict", Verdict{Class: Certain, Job: "7.srv", Match: ByEnvironment},
		Match(f, []Job{{ID: "7.srv", UID: 1000}}))
}

// A process whose environment hangs, as its user can bring about, is known by all else.
func TestReadWithoutEnvironment(t *testing.T) {
	f := newFixture(t)
	f.process(1, 0, 1, 0, 0, "init", "0::/init.scope\n")
	f.process(32, 1, 32, 1000, 22, "bash", "0::/x\n")
	f.process(33, 32, 33, 1000, 23, "sleep", "0::/x\n", "PBS_JOBID=78.srv")
	procfs := f.open()
	r := reader(procfs, jobOf(map[int]string{32: "77.srv"}))
	r.Environ = func(int, int) ([]byte, error) { return nil, proc.ErrHangs }
	p, err := proc.Read(procfs, 33)
	must.NoError(t, err)
	got, err := r.Read(p)
	if err != nil || got.JobID != "" || len(got.Chain) == 0 || got.Chain[0].In != "77.srv" {
		t.Errorf("%+v, %v", got, err)
	}
}
