package stray

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
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
		"PBS_JOBID=78.srv", "SSH_CONNECTION=10.0.0.1 40000 10.0.0.2 22")
	f.process(34, 999, 998, 1000, 24, "lost", "0::/x\n", "PBS_JOBID=../etc",
		"SSH_CONNECTION=::ffff:10.0.0.1 40000 fe80::2%eth0 22")
	f.process(35, 36, 36, 1000, 25, "orphan", "0::/x\n", "SSH_CONNECTION=10.0.0.1 400000 10.0.0.2 22")
	f.process(36, 1, 36, 1001, 99, "thief", "0::/x\n") // has the number of a parent that is gone
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
		JobID: "77[3].srv", SSH: &hostapi.Origin{Local: "10.0.0.1:40000", Remote: "10.0.0.2:22"},
		Cgroup: "1:name=systemd:/y\n0::/x\n",
		Exe:    exe("sleep"), Gone: true,
		Chain: []Relative{{PID: 32, UID: 1000, In: "77[3].srv"}, {PID: 31, UID: 1000},
			{PID: 30, Program: "sshd", Exe: exe("sshd")}, {PID: 20, Program: "sshd", Exe: exe("sshd")},
			{PID: 1, Program: "init", Exe: exe("init")}},
	}
	leader := want.Chain[0]
	want.Leader = &leader
	must.Equal(t, "", want, read(33))
	lost := read(34)
	if lost.JobID != "" || lost.Chain != nil || lost.Leader != nil || lost.SSH == nil ||
		lost.SSH.Local != "10.0.0.1:40000" || lost.SSH.Remote != "[fe80::2%eth0]:22" {
		t.Errorf("%+v, ssh %+v", lost, lost.SSH)
	}
	orphan := read(35)
	if orphan.Chain != nil || orphan.SSH != nil {
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

const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1 0 100 0 0 10 0
   1: 0100000A:9C40 0200000A:0016 01 00000000:00000000 02:0000 00000000  1000        0 4711 2 0 20 4 30 10 -1
   2: 0100000A:9C41 0200000A:0016 06 00000000:00000000 03:0000 00000000     0        0 0 3 0
   3: 0100000A:9C42 0200000A:0016 01 00000000:00000000 02:0000 00000000  1000        0 4712 2 0 20 4 30 10 -1
   4: 0100000A:9C43 0200000A:0016 08 00000000:00000000 02:0000 00000000  1000        0 4713 2 0 20 4 30 10 -1
   5: broken
`

const table6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 000080FE000000000000000001000000:9C40 000080FE000000000000000002000000:0016 01 00000000:00000000 00:00000000 00000000  1001        0 5000 1
   1: 0000000000000000FFFF00000100000A:9C44 0000000000000000FFFF00000200000A:0016 01 00000000:00000000 00:00000000 00000000  1000        0 5001 1
   2: 0000000000000000FFFF00000100000A:9C42 0000000000000000FFFF00000200000A:0016 01 00000000:00000000 00:00000000 00000000  1000        0 5002 1
`

func TestFindConnection(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the tables are of a little-endian machine")
	}
	f := newFixture(t)
	f.write("net/tcp", table)
	f.write("net/tcp6", table6)
	for _, tt := range []struct {
		name, local, remote string
		want                connection
		found               bool
	}{
		{"v4", "10.0.0.1:40000", "10.0.0.2:22", connection{1000, 4711}, true},
		{"v4 in the table of v6", "10.0.0.1:40004", "10.0.0.2:22", connection{1000, 5001}, true},
		{"v4 as v6", "[::ffff:10.0.0.1]:40000", "[::ffff:10.0.0.2]:22", connection{1000, 4711}, true},
		{"v6", "[fe80::1]:40000", "[fe80::2]:22", connection{1001, 5000}, true},
		{"v6 with its zone", "[fe80::1%eth0]:40000", "[fe80::2%eth0]:22", connection{1001, 5000}, true},
		{"the other way round", "10.0.0.2:22", "10.0.0.1:40000", connection{}, false},
		{"closed", "10.0.0.1:40001", "10.0.0.2:22", connection{}, false},
		{"closed by the other side", "10.0.0.1:40003", "10.0.0.2:22", connection{}, false},
		{"twice", "10.0.0.1:40002", "10.0.0.2:22", connection{}, false},
		{"none", "10.0.0.1:40009", "10.0.0.2:22", connection{}, false},
	} {
		got, err := findConnection(f.open(), netip.MustParseAddrPort(tt.local), netip.MustParseAddrPort(tt.remote))
		if got != tt.want || (err == nil) != tt.found || err != nil && !errors.Is(err, errNoConnection) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
	must.NoError(t, os.Remove(filepath.Join(f.dir, "net/tcp6")))
	if _, err := findConnection(f.open(), netip.MustParseAddrPort("10.0.0.1:40000"),
		netip.MustParseAddrPort("10.0.0.2:22")); err != nil {
		t.Errorf("without IPv6: %v", err)
	}
}

func TestHoldsFindsTheSocketOfAProcess(t *testing.T) {
	f := newFixture(t)
	dir := filepath.Join(f.dir, "31/fd")
	must.NoError(t, os.MkdirAll(dir, 0o755))
	for name, target := range map[string]string{"0": "/dev/null", "3": "socket:[4711]", "4": "socket:[47110]",
		"5": "pipe:[4712]"} {
		must.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	for inode, want := range map[uint64]bool{4711: true, 47110: true, 4712: false, 471: false} {
		if got, err := holds(t.Context(), f.open(), 31, inode); got != want || err != nil {
			t.Errorf("%d: %v, %v", inode, got, err)
		}
	}
	if got, err := holds(t.Context(), f.open(), 99, 4711); got || err != nil {
		t.Errorf("a process that is gone: %v, %v", got, err)
	}
}

// A connection of this process, found in the kernel's own tables.
func TestConnectionOfTheKernel(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	must.NoError(t, err)
	defer conn.Close()
	procfs, err := kernfs.Open("/proc")
	must.NoError(t, err)
	local, remote := conn.LocalAddr().(*net.TCPAddr).AddrPort(), conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	c, err := findConnection(procfs, local, remote)
	if err != nil || c.UID != os.Geteuid() {
		t.Fatalf("%+v, %v", c, err)
	}
	if held, err := holds(t.Context(), procfs, os.Getpid(), c.Inode); !held || err != nil {
		t.Errorf("this process holds it: %v, %v", held, err)
	}
	if held, err := holds(t.Context(), procfs, os.Getpid(), c.Inode+1<<40); held || err != nil {
		t.Errorf("it holds another: %v, %v", held, err)
	}
}

// A process whose environment hangs, as its user can bring about, is known by all else.
func TestReadWithoutEnvironment(t *testing.T) {
	f := newFixture(t)
	f.process(1, 0, 1, 0, 0, "init", "0::/init.scope\n")
	f.process(32, 1, 32, 1000, 22, "bash", "0::/x\n")
	f.process(33, 32, 33, 1000, 23, "sleep", "0::/x\n", "PBS_JOBID=78.srv")
	procfs := f.open()
	r := reader(procfs, jobOf(map[int]string{32: "77.srv"}))
	r.Environ = func(proc.Process) ([]byte, error) { return nil, proc.ErrHangs }
	p, err := proc.Read(procfs, 33)
	must.NoError(t, err)
	got, err := r.Read(p)
	if err != nil || got.JobID != "" || len(got.Chain) == 0 || got.Chain[0].In != "77.srv" {
		t.Errorf("%+v, %v", got, err)
	}
}
