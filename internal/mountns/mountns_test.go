package mountns

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
)

func TestMain(m *testing.M) {
	os.Exit(kernfstest.Run(m, fmt.Sprintf("hhtest_mountns_%d", os.Getpid())))
}

// room is a folder with the directory private, which everybody may write to, and a namespace in
// which that is a tmpfs of 1 MB.
type room struct {
	t            *testing.T
	procfs       *kernfs.FS
	private, pin string
}

func newRoom(t *testing.T) *room {
	t.Helper()
	kernfstest.NeedRoot(t)
	roots, err := kernfs.OpenRoots()
	must.NoError(t, err)
	dir := t.TempDir()
	r := &room{t, roots.Proc, filepath.Join(dir, "private"), filepath.Join(dir, "ns", "1.srv")}
	must.NoError(t, os.Mkdir(r.private, 0o700), os.Chmod(r.private, os.ModeSticky|0o777),
		os.Mkdir(filepath.Dir(r.pin), 0o700))
	t.Cleanup(func() { must.NoError(t, Unpin(r.pin), Unpin(r.pin), Detach(filepath.Dir(r.pin))) })
	must.NoError(t, Create(r.pin, Directory{Path: r.private, Size: 1 << 20, Options: "noexec,nr_inodes=1k"}.Mount))
	return r
}

// task is a process that waits for a child, as pbs_mom's task waits for its hook, and goes on when
// the child has ended. Or it reads what the child writes, as pam_exec does.
type task struct {
	*exec.Cmd
	t      *testing.T
	gate   *os.File
	output bytes.Buffer
	reaped bool // by Join, since it is our child
}

// start starts a task that runs the Perl code before, waits, and runs the code after.
func (r *room) start(before, after string, prefix ...string) *task {
	r.t.Helper()
	read, write, err := os.Pipe()
	must.NoError(r.t, err)
	defer read.Close()
	k := &task{t: r.t, gate: write}
	args := append(prefix, "perl", "-e", "$| = 1; pipe my $from, my $to; my $reads; "+before+`
my $child = fork // die; if (!$child) { open my $in, "<&=", 3 or die; sysread $in, my $x, 1; exit }
close $to; if ($reads) { my $n; do { $n = sysread $from, my $x, 1 } while !defined $n && $!{EINTR}; print "read\n" }
my $n = waitpid $child, 0; $n = waitpid $child, 0 while $n < 0 && $!{EINTR};
print $n == $child ? "waited\n" : "lost its child: $!\n"; `+after)
	k.Cmd = exec.Command(args[0], args[1:]...)
	k.Stdout, k.Stderr, k.ExtraFiles = &k.output, &k.output, []*os.File{read}
	k.Env = []string{"PRIVATE=" + r.private, "PATH=" + os.Getenv("PATH")}
	must.NoError(r.t, k.Start())
	r.t.Cleanup(func() {
		k.gate.Close()
		if !k.reaped {
			k.Process.Kill()
			k.Wait()
		}
	})
	must.Eventually(r.t, "it waits", func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", k.Process.Pid))
		call := unix.SYS_WAIT4
		if strings.Contains(before, "$reads") {
			call = unix.SYS_READ
		}
		return strings.HasPrefix(string(b), fmt.Sprint(call, " "))
	})
	return k
}

// goOn lets the task continue and returns what it prints.
func (k *task) goOn() string {
	k.t.Helper()
	must.NoError(k.t, k.gate.Close(), k.Wait())
	return k.output.String()
}

// in reports whether a file system is mounted on the private directory for the process.
func (r *room) in(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	must.NoError(r.t, err)
	return strings.Contains(string(b), " "+r.private+" ")
}

func TestAProcessThatWaitsJoins(t *testing.T) {
	for name, before := range map[string]string{"wait": "", "standard input is closed": "close STDIN;",
		"read": "$reads = 1;"} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t)
			k := r.start(before, `exec "/bin/sh", "-c", 'stat -f -c %T $PRIVATE; pwd; echo parent $PPID
head -c 1100000 /dev/zero >$PRIVATE/x 2>/dev/null; stat -c %s $PRIVATE/x'`)
			fds := func() []string { return names(t, fmt.Sprintf("/proc/%d/fd", k.Process.Pid)) }
			had := fds()
			began := time.Now()
			must.NoError(t, Join(r.procfs, k.Process.Pid, 0, r.pin))
			t.Logf("it took %v", time.Since(began))
			must.Equal(t, "descriptors", had, fds())
			must.NoError(t, Join(r.procfs, k.Process.Pid, 0, r.pin)) // it is in the namespace
			want := fmt.Sprintf("waited\ntmpfs\n/\nparent %d\n1048576\n", os.Getpid())
			if name == "read" {
				want = "read\n" + want
			}
			must.Equal(t, "what it prints", want, k.goOn())
			if _, err := os.Stat(r.private + "/x"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("outside: %v", err)
			}
		})
	}
}

func names(t *testing.T, dir string) (list []string) {
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// Signals that come meanwhile arrive, and the process still finds its child.
func TestSignalsDuringAJoinArrive(t *testing.T) {
	r := newRoom(t)
	k := r.start(`$SIG{USR1} = sub { $got++ };`, `print "got them\n" if $got`)
	stop := make(chan struct{})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for sending := true; sending; {
			select {
			case <-stop:
				sending = false
			default:
			}
			k.Process.Signal(unix.SIGUSR1)     // once at least
			time.Sleep(100 * time.Microsecond) // Perl dies of 120 that it has not handled yet
		}
	}()
	for !r.in(k.Process.Pid) { // between two signals it may not wait
		if err := Join(r.procfs, k.Process.Pid, 0, r.pin); err != nil &&
			!strings.Contains(err.Error(), "it does not wait") {
			k.gate.Close()
			t.Fatal(err, k.Wait(), k.output.String())
		}
	}
	close(stop)
	<-sent
	must.Equal(t, "what it prints", "waited\ngot them\n", k.goOn())
}

// A process may be killed, or stopped and continued, at any time during a Join. Join ends then, and
// no process hangs.
func TestAJoinEndsWithItsProcess(t *testing.T) {
	r := newRoom(t)
	for round := range 40 {
		k := r.start("", `print "on\n"`)
		signals := []unix.Signal{unix.SIGKILL}
		if round%2 == 1 {
			signals = []unix.Signal{unix.SIGSTOP, unix.SIGCONT}
		}
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			time.Sleep(time.Duration(round) * 10 * time.Microsecond)
			for _, sig := range signals {
				unix.Kill(k.Process.Pid, sig)
			}
		}()
		began := time.Now()
		err := Join(r.procfs, k.Process.Pid, 0, r.pin)
		if took := time.Since(began); took > stopTime/2 {
			t.Errorf("round %d: it took %v: %v", round, took, err)
		}
		<-sent
		if round%2 == 1 {
			must.Equal(t, "what it prints", "waited\non\n", k.goOn())
			continue
		}
		must.Eventually(t, "it is gone", func() bool {
			p, err := proc.Read(r.procfs, k.Process.Pid)
			k.reaped = errors.Is(err, proc.ErrGone)
			return k.reaped || err == nil && p.Dead()
		})
	}
}

// A process that is not as expected is refused, and continues where it was.
func TestJoinRefuses(t *testing.T) {
	const none = ""
	for _, tt := range []struct {
		name, want, before string
		prefix             []string
		then               func(r *room, pid int) (undo func())
	}{
		{"another user's", "uid 12345", "use POSIX; POSIX::setuid(12345);", nil, nil},
		{"another namespace", "its ns/mnt differs", none, []string{"unshare", "-m"}, nil},
		{"another root", "its root differs", `chroot "/usr" or die;`, nil, nil},
		{"stopped", "it is stopped by stopped", none, nil, func(r *room, pid int) func() {
			must.NoError(r.t, unix.Kill(pid, unix.SIGSTOP))
			must.Eventually(r.t, "it stops", func() bool {
				b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				return strings.Contains(string(b), ") T ")
			})
			return func() { must.NoError(r.t, unix.Kill(pid, unix.SIGCONT)) }
		}},
		{"traced", "another process traces it", none, nil, (*room).trace},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRoom(t)
			k := r.start(tt.before, `print "on\n"`, tt.prefix...)
			undo := func() {}
			if tt.then != nil {
				undo = tt.then(r, k.Process.Pid)
			}
			err := Join(r.procfs, k.Process.Pid, 0, r.pin)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if r.in(k.Process.Pid) {
				t.Error("it is in the namespace")
			}
			undo()
			must.Equal(t, "what it prints", "waited\non\n", k.goOn())
		})
	}
}

// The process that is stopped may have got the pid of the one that was checked before.
func TestJoinChecksWhatItHasStopped(t *testing.T) {
	r := newRoom(t)
	k := r.start("", `print "on\n"`)
	another := errors.New("another one")
	if err := onThread(func() error {
		return join(k.Process.Pid, -1, func() error { return another })
	}); !errors.Is(err, another) {
		t.Errorf("%v", err)
	}
	must.Equal(t, "what it prints", "waited\non\n", k.goOn())
}

// trace has another process trace pid until undo is called.
func (r *room) trace(pid int) (undo func()) {
	cmd := exec.CommandContext(r.t.Context(), "perl", "-e",
		fmt.Sprintf(`syscall(%d, 0x4206, %d, 0, 0) == 0 or die "$!"; print "traced"; close STDOUT; sleep 600`,
			unix.SYS_PTRACE, pid))
	out, err := cmd.StdoutPipe()
	must.NoError(r.t, err, cmd.Start())
	_, err = out.Read(make([]byte, 6))
	must.NoError(r.t, err)
	return func() { cmd.Process.Kill(); cmd.Wait() }
}

// A process that has the pid of an earlier one is left alone.
func TestJoinRefusesALaterProcess(t *testing.T) {
	r := newRoom(t)
	k := r.start("", "")
	p, err := proc.Read(r.procfs, k.Process.Pid)
	must.NoError(t, err)
	if err := Join(r.procfs, k.Process.Pid, p.StartTime-1, r.pin); err == nil || r.in(k.Process.Pid) {
		t.Errorf("another start time: %v", err)
	}
	must.NoError(t, Join(r.procfs, k.Process.Pid, p.StartTime, r.pin))
}

// A process that does not wait for a child, or has threads, is left alone.
func TestJoinRefusesWhatDoesNotWait(t *testing.T) {
	r := newRoom(t)
	for want, script := range map[string]string{
		"it does not wait": "exec sleep 600",
		"2 threads": `exec python3 -c 'import threading, time
threading.Thread(target=time.sleep, args=(600,), daemon=True).start(); time.sleep(600)'`,
	} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
		must.NoError(t, cmd.Start())
		must.Eventually(t, "it runs", func() bool {
			p, err := proc.Read(r.procfs, cmd.Process.Pid)
			must.NoError(t, err)
			return p.Comm == "sleep" || p.Threads == 2
		})
		for range 200 { // each lets the process go before the next
			if err := Join(r.procfs, cmd.Process.Pid, 0, r.pin); err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%v, want %s", err, want)
			}
		}
		if r.in(cmd.Process.Pid) {
			t.Error("it is in the namespace")
		}
		must.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		if err := cmd.Wait(); err == nil || err.Error() != "signal: terminated" {
			t.Errorf("%s: %v", script, err)
		}
	}
}

// No failure leaves a mount or a pin, and a namespace goes with its pin.
func TestNoNamespaceIsLeft(t *testing.T) {
	r := newRoom(t)
	count := func() (n int) {
		b, err := os.ReadFile("/proc/self/mountinfo")
		must.NoError(t, err)
		return bytes.Count(b, []byte(r.private)) + bytes.Count(b, []byte(filepath.Dir(r.pin)+"/"))
	}
	must.Equal(t, "mounts", 1, count())
	broken := errors.New("broken")
	_, err := New(func() error {
		must.NoError(t, Directory{Path: r.private}.Mount())
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	for _, d := range []Directory{{Path: "/usr"}, {Path: "/there/is/none"}, {Path: r.private, Options: "no_such=1"},
		{Path: r.private, From: "/there/is/none"}} {
		if ns, err := New(d.Mount); err == nil {
			ns.Close()
			t.Errorf("%+v is accepted", d)
		}
	}
	if err := Create(r.pin, func() error { return nil }); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second pin: %v", err)
	}
	must.Equal(t, "mounts", 1, count())
	must.NoError(t, Unpin(r.pin))
	must.Equal(t, "mounts", 0, count())
	if err := Enter(r.pin, func() error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("enter without a pin: %v", err)
	}
	must.NoError(t, os.WriteFile(r.pin, nil, 0o600)) // as after a failure between file and mount
	if err := Enter(r.pin, func() error { return nil }); !errors.Is(err, unix.EINVAL) {
		t.Errorf("enter a plain file: %v", err)
	}
}

// The threads of this process stay where they are.
func TestOnlyAThreadEnters(t *testing.T) {
	r := newRoom(t)
	for range 50 {
		must.NoError(t, Enter(r.pin, func() error {
			if !r.in(unix.Gettid()) {
				return errors.New("it has not entered")
			}
			return nil
		}))
	}
	must.Eventually(t, "no thread is in the namespace", func() bool {
		tasks, err := os.ReadDir("/proc/self/task")
		must.NoError(t, err)
		for _, task := range tasks {
			b, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/mountinfo")
			if strings.Contains(string(b), " "+r.private+" ") {
				return false
			}
		}
		return true
	})
}

// Linux 6.18 numbers namespaces by cpu, and does not pin one with a smaller number than ours.
func TestNamespacesOfEachCPUArePinned(t *testing.T) {
	kernfstest.NeedRoot(t)
	if os.Getenv("HOOKHOST_IN_NAMESPACE") != "" {
		for range 20 {
			newRoom(t)
		}
		return
	}
	var all unix.CPUSet
	must.NoError(t, unix.SchedGetaffinity(0, &all))
	for cpu, left := 0, min(all.Count(), 4); left > 0; cpu++ {
		if !all.IsSet(cpu) {
			continue
		}
		left--
		cmd := exec.CommandContext(t.Context(), "taskset", "-c", fmt.Sprint(cpu), "unshare", "-m", "taskset",
			fmt.Sprintf("%x", all[0]), os.Args[0], "-test.run=^TestNamespacesOfEachCPUArePinned$")
		cmd.Env = append(os.Environ(), "HOOKHOST_IN_NAMESPACE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("in a namespace of cpu %d: %v\n%s", cpu, err, out)
		}
	}
}

// The kernel's text for its own limit is that of a full disk.
func TestLimitOfNamespacesIsNamed(t *testing.T) {
	kernfstest.NeedRoot(t)
	if os.Getenv("HOOKHOST_IN_NAMESPACE") != "" {
		_, err := New(func() error { return nil })
		if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "user.max_mnt_namespaces") {
			t.Error(err)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "sh", "-ec",
		`echo 0 >/proc/sys/user/max_mnt_namespaces; exec "$0" -test.run='^TestLimitOfNamespacesIsNamed$'`, os.Args[0])
	cmd.Env = append(os.Environ(), "HOOKHOST_IN_NAMESPACE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
