package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/stray"
)

// owner owns the jobs of these tests.
const owner = 1000

// machine is a /proc made of files, with the processes of jobs.
type machine struct {
	t    testing.TB
	dir  string
	in   map[int]string // by pid: the job that the process is in
	read int            // how often the job of a process was read
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir(), in: map[int]string{}}
	m.write("stat", "cpu 1\nprocesses 1000\nprocs_running 1\n")
	m.write("sys/kernel/pid_max", "32768\n")
	m.write("net/tcp", "  sl  local_address rem_address   st\n   1: 0200000A:0016 0100000A:9C40 01 00000000:00000000 "+
		"02:0000 00000000  0        0 4711 2\n")
	m.process(1, 0, 0, "init")
	return m
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	must.NoError(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.NoError(m.t, os.WriteFile(path, []byte(text), 0o644))
}

// process adds a process that leads its session.
func (m *machine) process(pid, ppid, uid int, comm string, environ ...string) {
	m.t.Helper()
	m.member(pid, ppid, pid, uid, comm, environ...)
}

func (m *machine) member(pid, ppid, sid, uid int, comm string, environ ...string) {
	m.t.Helper()
	dir := strconv.Itoa(pid) + "/"
	m.write(dir+"stat", fmt.Sprintf("%d (%s) S %d %d %d 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0\n", pid, comm,
		ppid, pid, sid, pid))
	m.write(dir+"status", fmt.Sprintf("Name:\t%s\nUid:\t%d\t%d\t%d\t%d\nGid:\t%d\t%d\t%d\t%d\n", comm, uid, uid, uid,
		uid, uid, uid, uid, uid))
	m.write(dir+"cgroup", "0::/\n")
	m.write(dir+"environ", strings.Join(environ, "\x00")+"\x00")
	exe := filepath.Join(m.dir, dir, "exe")
	os.Remove(exe)
	must.NoError(m.t, os.Symlink("/usr/sbin/"+comm, exe))
}

func (m *machine) gone(pid int) {
	m.t.Helper()
	must.NoError(m.t, os.RemoveAll(filepath.Join(m.dir, strconv.Itoa(pid))))
}

func (m *machine) jobOf(pid int) (string, bool, error) {
	m.read++
	id, ok := m.in[pid]
	return id, ok, nil
}

func (m *machine) members(job string) (pids []int, err error) {
	for pid, in := range m.in {
		if in == job {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

func (m *machine) procfs() *kernfs.FS {
	m.t.Helper()
	procfs, err := kernfs.Open(m.dir)
	must.NoError(m.t, err)
	return procfs
}

func (m *machine) strays(action string) *strays {
	log := logrus.New()
	log.SetOutput(m.t.Output())
	return newStrays(action, reader(m.procfs(), m.jobOf), m.members, logrus.NewEntry(log))
}

func reader(procfs *kernfs.FS, jobOf func(int) (string, bool, error)) *stray.Reader {
	return &stray.Reader{Procfs: procfs, JobOf: jobOf, Environ: proc.NewEnvirons(procfs).Read}
}

func list(ids ...string) map[string]*hostapi.Job {
	jobs := map[string]*hostapi.Job{}
	for _, id := range ids {
		jobs[id] = &hostapi.Job{ID: id, Owner: hostapi.Owner{UID: owner}}
	}
	return jobs
}

// scanOnce returns what a scan found, one line for each result.
func scanOnce(t *testing.T, s *strays, jobs map[string]*hostapi.Job, partial bool) string {
	t.Helper()
	updates, err := s.scan(t.Context(), jobs, partial)
	if err != nil {
		t.Error(err)
	}
	var lines []string
	for id, u := range updates {
		for _, x := range u.Strays {
			lines = append(lines, fmt.Sprintf("%s: %d %s %s", id, x.Process.PID, x.Comm, x.Match))
		}
		for _, note := range u.Notes {
			lines = append(lines, id+": "+note)
		}
		if u.Usage != nil {
			lines = append(lines, fmt.Sprintf("%s: %d strays", id, u.Usage.Strays))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func want(t *testing.T, what, got string, lines ...string) {
	t.Helper()
	slices.Sort(lines)
	if text := strings.Join(lines, "\n"); got != text {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, text)
	}
}

func TestScanFindsStrays(t *testing.T) {
	m := newMachine(t)
	m.process(10, 1, 0, "sshd")
	m.process(11, 1, 2000, "sleep", "PBS_JOBID=7.srv") // of a user without a job
	m.process(20, 1, owner, "mine", "PBS_JOBID=7.srv")
	m.in[20] = "7.srv"
	m.process(30, 1, owner, "daemon", "PBS_JOBID=7.srv")
	m.member(31, 30, 30, owner, "helper", "PBS_JOBID=7.srv") // attached with its session
	m.process(50, 10, owner, "bash")
	m.process(60, 1, owner, "lost")
	s := m.strays(adoptStrays)
	want(t, "no job", scanOnce(t, s, nil, false))
	const adopted = "7.srv: 30 daemon environment"
	lost := "7.srv: pid 60 (lost) of the job's owner is outside of the job: nothing says what it belongs to"
	want(t, "first", scanOnce(t, s, list("7.srv"), false), adopted, lost, "7.srv: 1 strays")
	m.in[30], m.in[31] = "7.srv", "7.srv"
	want(t, "it was taken in", scanOnce(t, s, list("7.srv"), false), "7.srv: 1 strays")
	m.read = 0
	want(t, "nothing new", scanOnce(t, s, list("7.srv"), false), "7.srv: 1 strays")
	if m.read > 0 {
		t.Errorf("%d processes were read, and nothing has changed", m.read)
	}
	m.process(70, 1, owner, "late", "PBS_JOBID=7.srv")
	want(t, "a new one", scanOnce(t, s, list("7.srv"), false), "7.srv: 70 late environment", "7.srv: 1 strays")
	m.in[70] = "7.srv"
	// If the user has a second job, a process that may belong to either is only logged.
	m.process(80, 1, owner, "another")
	if got := scanOnce(t, s, list("7.srv", "8.srv"), false); strings.Contains(got, "another") {
		t.Errorf("with a second job: %s", got)
	}
}

// Containers that podman has put into a cgroup of the user's systemd are moved into the job, if it
// is the user's only one. Its report names, once, the setting that prevents that.
func TestContainersOutsideOfTheJob(t *testing.T) {
	m := newMachine(t)
	for _, pid := range []int{30, 40} {
		m.process(pid, 1, owner, "conmon")
		m.write(fmt.Sprintf("%d/cgroup", pid),
			fmt.Sprintf("0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-%d.scope\n", pid))
		m.write(fmt.Sprintf("%d/loginuid", pid), "4294967295")
	}
	s := m.strays(adoptStrays)
	want(t, "with a part of the jobs", scanOnce(t, s, list("7.srv"), true))
	want(t, "of one of two jobs", scanOnce(t, s, list("7.srv", "8.srv"), false))
	want(t, "first", scanOnce(t, s, list("7.srv"), false), "7.srv: 30 conmon container", "7.srv: 40 conmon container",
		"7.srv: a container was outside of the job, in a cgroup of its owner's systemd: "+
			`cgroup_manager = "cgroupfs" in containers.conf prevents that`)
	m.process(50, 1, owner, "late")
	m.write("50/cgroup", "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-50.scope\n")
	m.write("50/loginuid", "4294967295")
	m.in[30], m.in[40] = "7.srv", "7.srv"
	want(t, "another", scanOnce(t, s, list("7.srv"), false), "7.srv: 50 late container")
}

// A pid that is reused names another process, even if the kernel has created few or many in
// between.
func TestPIDsComeAgain(t *testing.T) {
	m := newMachine(t)
	m.process(30, 1, owner, "quiet", "HOME=/")
	m.process(31, 1, 2000, "other", "PBS_JOBID=7.srv")
	s := m.strays(adoptStrays)
	scanOnce(t, s, list("7.srv"), false)
	scanOnce(t, s, list("7.srv"), false)
	m.gone(31)
	m.process(31, 1, owner, "daemon", "PBS_JOBID=7.srv")
	m.write("stat", "cpu 1\nprocesses 18000\n")
	want(t, "after many forks", scanOnce(t, s, list("7.srv"), false), "7.srv: 31 daemon environment", "7.srv: 1 strays")
	m.write("stat", "cpu 1\n")
	m.gone(31)
	m.process(31, 1, owner, "again")
	if got := scanOnce(t, s, list("7.srv"), false); !strings.Contains(got, "2 strays") &&
		!strings.Contains(got, "1 strays") {
		t.Errorf("where forks are not counted: %s", got)
	}
}

func TestPartialScan(t *testing.T) {
	m := newMachine(t)
	m.process(30, 1, owner, "daemon", "PBS_JOBID=7.srv")
	m.process(31, 1, owner, "daemon", "PBS_JOBID=8.srv")
	s := m.strays(adoptStrays)
	want(t, "not at once", scanOnce(t, s, list("7.srv"), true), "7.srv: 30 daemon environment")
	want(t, "not so soon again", scanOnce(t, s, list("8.srv"), true))
	s.last = time.Time{}
	want(t, "another job", scanOnce(t, s, list("8.srv"), true), "8.srv: 31 daemon environment")
	s.last = time.Time{}
	s.mu.Lock()
	want(t, "beside another scan", scanOnce(t, s, list("7.srv"), true))
	s.mu.Unlock()
}

func TestReportAndOff(t *testing.T) {
	m := newMachine(t)
	m.process(30, 1, owner, "dae\x1b[mon", "PBS_JOBID=7.srv")
	s := m.strays(reportStrays)
	told := "7.srv: pid 30 (dae?[mon) of the job's owner is outside of the job: it belongs to the job by its " +
		"environment"
	want(t, "report", scanOnce(t, s, list("7.srv"), false), told, "7.srv: 1 strays")
	want(t, "once", scanOnce(t, s, list("7.srv"), false), "7.srv: 1 strays")
	for pid := 100; pid < 130; pid++ {
		m.process(pid, 1, owner, "daemon")
	}
	got := scanOnce(t, s, list("7.srv"), false)
	if n := strings.Count(got, "\n"); !strings.Contains(got, "7.srv: 31 strays") || n != maxTold-1 {
		t.Errorf("%d lines of many strays:\n%s", n, got)
	}
	want(t, "off", scanOnce(t, m.strays(leaveStrays), list("7.srv"), false))
}

// A scan reports no more processes than a host accepts at once, and the rest later.
func TestManyStrays(t *testing.T) {
	m := newMachine(t)
	for pid := 100; pid < 200; pid++ {
		m.process(pid, 1, owner, "daemon", "PBS_JOBID=7.srv")
	}
	s := m.strays(adoptStrays)
	all := map[string]bool{}
	for range 2 {
		got := strings.Split(scanOnce(t, s, list("7.srv"), false), "\n")
		if len(got) > hostapi.MaxStrays {
			t.Errorf("%d at once", len(got))
		}
		for _, line := range got {
			var pid int
			fmt.Sscanf(line, "7.srv: %d", &pid)
			m.in[pid], all[line] = "7.srv", true
		}
	}
	if len(all) != 100 {
		t.Errorf("%d of 100", len(all))
	}
}

// The processes are real: a sleep is killed, and another one without the job's id is not.
func TestKillEndsStraysOfTheJobAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it starts processes of another user")
	}
	procfs, err := kernfs.Open("/proc")
	must.NoError(t, err)
	if own, err := os.ReadFile("/proc/self/cgroup"); err == nil && strings.Contains(string(own), ".service") {
		kernfstest.Elsewhere(t, "what runs in a service of systemd is no stray")
	}
	uid := uint32(20000 + 2*(os.Getpid()%10_000)) // no other run has it
	start := func(env ...string) *exec.Cmd {
		cmd := exec.Command("/bin/sleep", "1000")
		cmd.Env = env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		must.NoError(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	daemon, login := start("PBS_JOBID=7.srv"), start("HOME=/")
	nobody := func(int) (string, bool, error) { return "", false, nil }
	log := logrus.New()
	log.SetOutput(t.Output())
	s := newStrays(killStrays, reader(procfs, nobody), func(string) ([]int, error) { return nil, nil },
		logrus.NewEntry(log))
	jobs := map[string]*hostapi.Job{"7.srv": {ID: "7.srv", Owner: hostapi.Owner{UID: int(uid)}}}
	var notes string
	killed := fmt.Sprintf("killed pid %d (sleep), which was outside of the job: it belonged to it by its environment",
		daemon.Process.Pid)
	for end := time.Now().Add(time.Minute); !strings.Contains(notes, killed); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it lives; notes: %s", notes)
		}
		notes += scanOnce(t, s, jobs, false)
	}
	if daemon.Wait(); daemon.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", daemon.ProcessState)
	}
	if err := login.Process.Signal(syscall.Signal(0)); err != nil ||
		strings.Contains(notes, fmt.Sprintf("killed pid %d", login.Process.Pid)) {
		t.Errorf("the other one: %v; %s", err, notes)
	}
}

// A job that began before hookhost was installed has no cgroup. All its processes are outside, and
// stay there.
func TestScanOfAJobWithoutACgroup(t *testing.T) {
	for _, action := range []string{adoptStrays, reportStrays, killStrays} {
		m := newMachine(t)
		m.process(100, 1, owner, "program", "PBS_JOBID=7.srv")
		s := m.strays(action)
		there := false
		s.members = func(string) ([]int, error) {
			if !there {
				return nil, fmt.Errorf("processes: %w", cgroup.ErrNotFound)
			}
			return nil, nil
		}
		jobs := list("7.srv")
		for range 3 {
			want(t, action, scanOnce(t, s, jobs, false))
		}
		if there = true; action == adoptStrays {
			want(t, "it has one now", scanOnce(t, s, jobs, false), "7.srv: 100 program environment")
		}
	}
}

// A scan that is interrupted forgets no process.
func TestScanInTime(t *testing.T) {
	m := newMachine(t)
	m.process(100, 1, owner, "daemon")
	s := m.strays(adoptStrays)
	jobs := list("7.srv")
	want(t, "told", scanOnce(t, s, jobs, false), "7.srv: 1 strays",
		"7.srv: pid 100 (daemon) of the job's owner is outside of the job: nothing says what it belongs to")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.scan(over, jobs, false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	want(t, "not told again", scanOnce(t, s, jobs, false), "7.srv: 1 strays")
	m.in[100] = "7.srv"
	m.write("100/environ", "PMI_RANK=0\x00")
	r := newRanks(m.procfs(), m.members, proc.NewEnvirons(m.procfs()))
	if found, err := r.find(over, "7.srv", owner); !errors.Is(err, context.Canceled) || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	want(t, "the rank the next time", findOnce(t, r), "0: 100 daemon")
}

// BenchmarkScan measures scans: of a node on which nothing has changed, and the first one.
func BenchmarkScan(b *testing.B) {
	for _, n := range []int{500, 5000} {
		procfs, in := manyProcesses(b, n)
		nobody := func(int) (string, bool, error) { return "", false, nil }
		open := func() *strays {
			return newStrays(adoptStrays, reader(procfs, nobody), func(string) ([]int, error) { return in, nil },
				logrus.NewEntry(logrus.New()))
		}
		jobs := list("7.srv")
		b.Run(fmt.Sprintf("%d processes/steady", n), func(b *testing.B) {
			s := open()
			if _, err := s.scan(b.Context(), jobs, false); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				s.scan(b.Context(), jobs, false)
			}
		})
		b.Run(fmt.Sprintf("%d processes/first", n), func(b *testing.B) {
			for b.Loop() {
				open().scan(b.Context(), jobs, false)
			}
		})
	}
}

// manyProcesses returns a /proc as the kernel would show it. It seems to have many processes, but
// there are only a few behind the names.
func manyProcesses(b *testing.B, n int) (procfs *kernfs.FS, in []int) {
	b.Helper()
	m := newMachine(b)
	for pid := 100; pid < 100+n; pid++ {
		uid := 0
		switch {
		case pid%10 < 6: // most belong to the job
			in = append(in, pid)
			uid = owner
		case pid%10 == 6:
			uid = owner
		}
		m.process(pid, 1, uid, "program", "HOME=/", "PATH=/bin")
	}
	return m.procfs(), in
}
