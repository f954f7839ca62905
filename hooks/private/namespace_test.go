package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/mountns"
	"github.com/hookhost/hookhost/internal/must"
)

// dirsSettings are private directories in memory, or on disk.
func (n *node) dirsSettings(onDisk bool) string {
	if onDisk {
		must.NoError(n.t, os.MkdirAll(n.base(), 0o755))
		return fmt.Sprintf(`"dirs":[{"path":"SHARED","base":%q}]`, n.base())
	}
	return `"dirs":[{"path":"SHARED","size":"1mb"}]`
}

func (n *node) base() string { return filepath.Join(n.dir, "base") }

// left lists what is left of jobs.
func (n *node) left() []string {
	list := append(names(n.t, filepath.Join(n.dir, "run/ns")), names(n.t, filepath.Join(n.base(), testPrefix()))...)
	b, err := os.ReadFile("/proc/self/mountinfo")
	must.NoError(n.t, err)
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, n.dir+"/run/ns/") || strings.Contains(line, n.shared) {
			list = append(list, line)
		}
	}
	return list
}

// program is a process that becomes a program of a job as under pbs_mom. As root it waits for its
// hook. Then it becomes its user.
type program struct {
	*exec.Cmd
	n    *node
	gate io.Closer
	out  strings.Builder
}

func (n *node) program(uid int, script string) *program {
	n.t.Helper()
	p := &program{n: n}
	p.Cmd = exec.CommandContext(n.t.Context(), "perl", "-e", `my $hook = fork // die;
if (!$hook) { sysread STDIN, my $x, 1; exit } waitpid $hook, 0; $) = "$ARGV[0] $ARGV[0]"; $( = $ARGV[0];
use POSIX; POSIX::setuid($ARGV[0]); exec "/bin/sh", "-c", $ARGV[1]`, fmt.Sprint(uid), "cd '"+n.shared+"'; "+script)
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	gate, err := p.StdinPipe()
	p.gate, p.Stdout, p.Stderr = gate, &p.out, &p.out
	must.NoError(n.t, err, p.Start())
	n.t.Cleanup(func() {
		if p.ProcessState == nil {
			syscall.Kill(-p.Process.Pid, syscall.SIGKILL)
			p.Wait()
		}
	})
	must.Eventually(n.t, "it waits", func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", p.Process.Pid))
		return strings.HasPrefix(string(b), fmt.Sprint(unix.SYS_WAIT4, " "))
	})
	return p
}

// launch sends the job's launch and lets the program begin.
func (p *program) launch(job *hostapi.Job, env map[string]string) (*hostapi.Outcome, error) {
	p.n.t.Helper()
	out, err := p.n.Call(p.n.t.Context(),
		&hostapi.Request{Event: hostapi.EventLaunch, Job: job, PID: p.Process.Pid, Env: env})
	p.gate.Close()
	return out, err
}

func (p *program) prints() string {
	p.n.t.Helper()
	must.NoError(p.n.t, p.Wait())
	return p.out.String()
}

func TestDirectoriesAreAJobsAlone(t *testing.T) {
	for _, onDisk := range []bool{false, true} {
		t.Run(fmt.Sprintf("on disk %t", onDisk), func(t *testing.T) {
			n := newNode(t)
			n.start(n.dirsSettings(onDisk), tmpSettings)
			must.NoError(t, os.WriteFile(n.shared+"/the-nodes", nil, 0o666))
			job, other := jobOf("7[1].srv", newOwner()), jobOf("8.srv", newOwner())
			for _, job := range []*hostapi.Job{job, job, other} { // the event may be repeated
				n.call(hostapi.EventBegin, job)
			}
			first := n.program(job.Owner.UID,
				"stat -c '%a %u' .; ls; touch mine; ln -s /etc/passwd link; mkdir d; echo >d/f")
			_, err := first.launch(job, nil)
			must.NoError(t, err)
			must.Equal(t, "the first program prints", "1777 0\n", first.prints())
			task := n.program(job.Owner.UID, "ls; ls '"+n.dir+"/run/tmp/8.srv' 2>&1; head -c 2m /dev/zero >x; rm x")
			out, err := task.launch(job, map[string]string{"TMPDIR": n.shared + "/pbs.7"})
			must.NoError(t, err)
			must.Equal(t, "TMPDIR", n.dir+"/run/tmp/7[1].srv", out.SetEnv["TMPDIR"])
			got := task.prints()
			if !strings.HasPrefix(got, "d\nlink\nmine\nls: ") || strings.Contains(got, "No space left") == onDisk {
				t.Errorf("a task prints %q", got)
			}
			stranger := n.program(other.Owner.UID, "ls; ls -d '"+n.base()+"/'*/*")
			_, err = stranger.launch(other, nil)
			must.NoError(t, err)
			if got := stranger.Wait(); got == nil || strings.Contains(stranger.out.String(), "mine") {
				t.Errorf("another job prints %q", stranger.out.String())
			}
			must.Equal(t, "of the node", []string{"the-nodes"}, names(t, n.shared))

			// They survive the hook's program, and go with their jobs.
			n.start(n.dirsSettings(onDisk))
			n.hostCall(hostapi.EventStartup, job, other)
			again := n.program(job.Owner.UID, "ls")
			_, err = again.launch(job, nil)
			must.NoError(t, err)
			must.Equal(t, "after a restart a task prints", "d\nlink\nmine\n", again.prints())
			n.call(hostapi.EventEnd, job)
			n.call(hostapi.EventEnd, job)
			n.start() // even if they are not configured any more: exechost_startup finds the other job's
			if onDisk {
				n.start(n.dirsSettings(onDisk))
			}
			n.hostCall(hostapi.EventStartup)
			must.Eventually(t, "nothing is left", func() bool { return len(n.left()) == 0 })
			if _, err := os.Stat("/etc/passwd"); err != nil {
				t.Error(err)
			}
		})
	}
}

// A login session is in the job's directories, because sshd's process is root's and waits for
// pam_exec. What the user attaches is not.
func TestLoginsJoinTheDirectories(t *testing.T) {
	n := newNode(t)
	n.start(n.dirsSettings(false))
	must.NoError(t, os.WriteFile(n.shared+"/the-nodes", nil, 0o666))
	job := jobOf("7.srv", newOwner())
	n.call(hostapi.EventBegin, job)
	defer n.call(hostapi.EventEnd, job)
	for login, want := range map[bool]string{true: "", false: "the-nodes\n"} {
		p := n.program(job.Owner.UID, "ls")
		_, err := n.Call(t.Context(),
			&hostapi.Request{Event: hostapi.EventAttach, Job: job, PID: p.Process.Pid, Login: login})
		must.NoError(t, err)
		p.gate.Close()
		must.Equal(t, fmt.Sprintf("a login %t sees", login), want, p.prints())
	}
	running := exec.CommandContext(t.Context(), "sleep", "600")
	must.NoError(t, running.Start())
	_, err := n.Call(t.Context(),
		&hostapi.Request{Event: hostapi.EventAttach, Job: job, PID: running.Process.Pid, Login: true})
	if hostapi.KindOf(err) != hostapi.KindNode {
		t.Errorf("a process that cannot be moved: %v", err)
	}
	must.NoError(t, running.Process.Kill())
	running.Wait()
}

// A process that has ended, and that nobody has waited for, keeps nothing.
func TestDefunctProcessesKeepNothing(t *testing.T) {
	n := newNode(t)
	n.start(n.dirsSettings(false))
	job := jobOf("7.srv", newOwner())
	n.call(hostapi.EventBegin, job)
	p := n.program(job.Owner.UID, "echo >file")
	_, err := p.launch(job, nil)
	must.NoError(t, err)
	must.Eventually(t, "it is defunct", func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
		return strings.Contains(string(b), ") Z ")
	})
	n.call(hostapi.EventEnd, job)
	must.Equal(t, "left", none, n.left())
	must.NoError(t, p.Wait())
}

// The TMPDIR of another job goes with that job, though this one's namespace has its mount, too.
func TestNamespacesKeepNoTMPDIROfAnotherJob(t *testing.T) {
	n := newNode(t)
	n.start(n.dirsSettings(false), tmpSettings, runtimeSettings)
	other, job := jobOf("7.srv", newOwner()), jobOf("8.srv", newOwner())
	n.call(hostapi.EventBegin, other)
	n.call(hostapi.EventBegin, job)
	mounts := func() (found []string) {
		must.NoError(t, mountns.Enter(filepath.Join(n.dir, "run/ns/8.srv"), func() error {
			b, err := os.ReadFile("/proc/thread-self/mountinfo")
			for _, dir := range []string{"run/tmp/7.srv", fmt.Sprint("run/runtime/", other.Owner.UID)} {
				if strings.Contains(string(b), " "+filepath.Join(n.dir, dir)+" ") {
					found = append(found, dir)
				}
			}
			return err
		}))
		return found
	}
	must.Equal(t, "mounts of the other job", 2, len(mounts()))
	n.call(hostapi.EventEnd, other)
	must.Equal(t, "mounts of the other job after its end", none, mounts())
	n.call(hostapi.EventEnd, job)
}

// Without tmp, a TMPDIR that the private directory hides is the private directory.
func TestTMPDIRIsNotHidden(t *testing.T) {
	n := newNode(t)
	n.start(n.dirsSettings(false))
	job := jobOf("7.srv", newOwner())
	n.call(hostapi.EventBegin, job)
	defer n.call(hostapi.EventEnd, job)
	for tmpDir, want := range map[string]string{n.shared + "/pbs.7.srv": n.shared, n.shared + "2": "", "": ""} {
		out, err := n.program(job.Owner.UID, ":").launch(job, map[string]string{"TMPDIR": tmpDir})
		must.NoError(t, err)
		must.Equal(t, "TMPDIR instead of "+tmpDir, want, out.SetEnv["TMPDIR"])
	}
}

// A job without its directories does not start, and nothing of it is left.
func TestNoJobRunsWithoutItsDirectories(t *testing.T) {
	n := newNode(t)
	job := jobOf("7.srv", newOwner())
	for name, settings := range map[string]string{
		"not sticky":                      `"dirs":[{"path":"SHARED"},{"path":"/usr"}]`,
		"no base":                         `"dirs":[{"path":"SHARED","base":"/there/is/none"}]`,
		"a base that others can write to": `"dirs":[{"path":"SHARED","size":"1mb"},{"path":"/tmp","base":"SHARED"}]`,
	} {
		n.start(settings, tmpSettings, runtimeSettings)
		_, err := n.Call(t.Context(), &hostapi.Request{Event: hostapi.EventBegin, Job: job})
		if hostapi.KindOf(err) != hostapi.KindNode {
			t.Errorf("%s: %v", name, err)
		}
		must.Equal(t, name+": left", none, slices.Concat(n.left(), n.tmpDirs(), n.runtimeDirs()))
	}
	n.start(n.dirsSettings(false))
	n.call(hostapi.EventBegin, job)
	running := exec.CommandContext(t.Context(), "sleep", "600")
	must.NoError(t, running.Start())
	_, err := n.Call(t.Context(), &hostapi.Request{Event: hostapi.EventLaunch, Job: job, PID: running.Process.Pid})
	if hostapi.KindOf(err) != hostapi.KindNode {
		t.Errorf("a process that cannot be moved: %v", err)
	}
	must.NoError(t, running.Process.Kill())
	running.Wait()
	must.NoError(t, unix.Unmount(filepath.Join(n.dir, "run/ns/7.srv"), unix.MNT_DETACH))
	p := n.program(job.Owner.UID, ":")
	if _, err := p.launch(job, nil); hostapi.KindOf(err) != hostapi.KindNode {
		t.Errorf("a namespace that is gone: %v", err)
	}
	n.call(hostapi.EventAbort, job)
	must.Equal(t, "left", none, n.left())
}

// Anybody can list the node's directory without end, so that nothing can be mounted on it. Jobs
// then go back to the queue, and no begin waits for long.
func TestHeldMountPointHoldsUpNoBegin(t *testing.T) {
	n := newNode(t)
	n.start(n.dirsSettings(false), tmpSettings)
	job := jobOf("7.srv", newOwner())
	begin := func() (took time.Duration, err error) {
		began := time.Now()
		_, err = n.Call(t.Context(), &hostapi.Request{Event: hostapi.EventBegin, Job: job})
		return time.Since(began), err
	}
	release := kernfstest.HoldDirectory(t, n.shared)
	for _, limit := range []time.Duration{20 * time.Second, 3 * time.Second} {
		took, err := begin()
		if hostapi.KindOf(err) != hostapi.KindBusy || !strings.Contains(err.Error(), "fuser -v "+n.shared) ||
			took > limit {
			t.Errorf("after %v: %v", took, err)
		}
		must.Equal(t, "left", none, slices.Concat(n.left(), n.tmpDirs()))
	}
	release()
	must.Eventually(t, "a job begins", func() bool { _, err := begin(); return err == nil })
	n.call(hostapi.EventEnd, job)
	must.Equal(t, "left", none, slices.Concat(n.left(), n.tmpDirs()))
}

// A job can fill the disk of the private directories. Other jobs then go back to the queue.
func TestFullDiskIsNotTheNodesFault(t *testing.T) {
	n := newNode(t)
	n.start(n.dirsSettings(true))
	must.NoError(t, unix.Mount("disk", n.base(), "tmpfs", 0, "mode=755,nr_inodes=100"))
	t.Cleanup(func() { must.NoError(t, unix.Unmount(n.base(), unix.MNT_DETACH)) })
	fills, job := jobOf("7.srv", newOwner()), jobOf("8.srv", newOwner())
	n.call(hostapi.EventBegin, fills)
	p := n.program(fills.Owner.UID, "i=0; while (: >$i) 2>&-; do i=$((i + 1)); done; echo full")
	_, err := p.launch(fills, nil)
	must.NoError(t, err)
	must.Equal(t, "the disk is", "full\n", p.prints())
	_, err = n.Call(t.Context(), &hostapi.Request{Event: hostapi.EventBegin, Job: job})
	if hostapi.KindOf(err) != hostapi.KindBusy || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("on a full disk: %v", err)
	}
	n.call(hostapi.EventEnd, fills)
	n.call(hostapi.EventBegin, job)
	n.call(hostapi.EventEnd, job)
	must.Equal(t, "left", none, n.left())
}

// Jobs cannot fill /run. The kernel's limits for mounts have the same error.
func TestFullRunIsTheNodesFault(t *testing.T) {
	n := newNode(t)
	n.start(n.dirsSettings(true))
	pins := filepath.Join(n.dir, "run/ns")
	must.NoError(t, os.Mkdir(pins, 0o700), unix.Mount("run", pins, "tmpfs", 0, "mode=700,nr_inodes=1"))
	job := jobOf("7.srv", newOwner())
	_, err := n.Call(t.Context(), &hostapi.Request{Event: hostapi.EventBegin, Job: job})
	if hostapi.KindOf(err) != hostapi.KindNode || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("on a full /run: %v", err)
	}
	must.Equal(t, "left", none, n.left())
}

// What an owner does in the directories holds up nothing. A process stays, and has a nested
// namespace. A descriptor is open outside of the job. A file system does not answer.
func TestOwnersKeepNoPrivateDirectory(t *testing.T) {
	for _, onDisk := range []bool{false, true} {
		t.Run(fmt.Sprintf("on disk %t", onDisk), func(t *testing.T) {
			n := newNode(t)
			n.start(n.dirsSettings(onDisk))
			job := jobOf("7.srv", newOwner())
			n.call(hostapi.EventBegin, job)
			dir, asked, _ := kernfstest.HangingFUSE(t, job.Owner.UID)
			kept := n.program(job.Owner.UID, `echo >open; exec 5<open; mkdir -p a/b/c; chmod 0 a
unshare -Urm sh -c 'mkdir m; mount -t tmpfs tmpfs m; sleep 600' 2>/dev/null & echo >ready; exec sleep 600`)
			_, err := kept.launch(job, nil)
			must.NoError(t, err)
			ns := fmt.Sprintf("/proc/%d/root", kept.Process.Pid)
			must.Eventually(t, "it runs", func() bool {
				_, err := os.Stat(ns + n.shared + "/ready")
				return err == nil
			})
			held, err := os.Open(ns + n.shared + "/open")
			must.NoError(t, err)
			defer held.Close()
			must.NoError(t, enter(kept.Process.Pid, func() error {
				if err := os.Mkdir(n.shared+"/fuse", 0o777); err != nil {
					return err
				}
				return unix.Mount(dir, n.shared+"/fuse", "", unix.MS_BIND, "")
			}))
			n.call(hostapi.EventEnd, job) // its processes live, as none does after hook cgroup
			if asked() > 0 {
				t.Errorf("%d questions to the file system", asked())
			}
			must.Eventually(t, "nothing is left", func() bool {
				n.hostCall(hostapi.EventPeriodic) // the nested shell may have added a file meanwhile
				return len(n.left()) == 0
			})
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", kept.Process.Pid))
			must.NoError(t, err)
			if strings.Contains(string(b), n.shared) {
				t.Errorf("the process still has the directory:\n%s", b)
			}
		})
	}
}

// A user can list a directory of an ended job, from another job, without end. That holds up the
// removal of this user's directories alone.
func TestHeldDirectoryHoldsUpNoOtherUser(t *testing.T) {
	n := newNode(t)
	n.start(n.dirsSettings(true))
	held, other := jobOf("7.srv", newOwner()), jobOf("8.srv", newOwner())
	n.call(hostapi.EventBegin, held)
	n.call(hostapi.EventBegin, other)
	dir := filepath.Join(n.base(), testPrefix(), held.ID, n.shared)
	must.NoError(t, os.WriteFile(dir+"/file", nil, 0o644))
	release := kernfstest.HoldDirectory(t, dir)
	usual := cleanTime
	cleanTime = 100 * time.Millisecond
	n.call(hostapi.EventEnd, held)
	cleanTime = usual
	n.call(hostapi.EventEnd, other)
	if left := n.left(); len(left) != 1 || !strings.HasPrefix(left[0], overPrefix) {
		t.Errorf("left: %v; want the directory that is held", left)
	}
	n.start(n.dirsSettings(true)) // a new start of the hook knows whose it is
	n.hostCall(hostapi.EventStartup, other)
	n.call(hostapi.EventBegin, other)
	n.call(hostapi.EventEnd, other)
	must.Equal(t, "left while it is held", 1, len(n.left()))
	release()
	must.Eventually(t, "nothing is left", func() bool {
		n.hostCall(hostapi.EventPeriodic)
		return len(n.left()) == 0
	})
}

// A user namespace in a job has the job's directories, too, and cannot take them away.
func TestUserNamespacesDoNotShowTheNodes(t *testing.T) {
	n := newNode(t)
	n.start(n.dirsSettings(false))
	must.NoError(t, os.WriteFile(n.shared+"/the-nodes", nil, 0o666))
	job := jobOf("7.srv", newOwner())
	n.call(hostapi.EventBegin, job)
	defer n.call(hostapi.EventEnd, job)
	p := n.program(job.Owner.UID, `cd /; unshare -Urm sh -c 'umount "$0"; umount -l "$0"; ls "$0"
mount --bind / /mnt; ls "/mnt$0"; mount --move "$0" /mnt; ls "$0"; mount -t tmpfs x /mnt; ls /mnt' '`+n.shared+`'; :`)
	_, err := p.launch(job, nil)
	must.NoError(t, err)
	if got := p.prints(); strings.Contains(got, "the-nodes") {
		t.Errorf("it prints %q", got)
	}
}

// enter runs f in the mount namespace of a process.
func enter(pid int, f func() error) error {
	return mountns.Enter(fmt.Sprintf("/proc/%d/ns/mnt", pid), f)
}

func TestSharedMemoryIsSized(t *testing.T) {
	n := newNode(t)
	job := jobOf("7.srv", newOwner())
	for _, tt := range []struct{ settings, asked, want string }{
		{`"dirs":[{"path":"/dev/shm","size":"1mb"}]`, "2mb", ""},
		{`"dirs":[{"path":"/dev/shm","size":"1mb"}]`, "0", ""},
		{`"dirs":[{"path":"/dev/shm","size":"1mb"}]`, "many", "not a size"},
		{`"dirs":[]`, "2mb", "has no tmpfs on /dev/shm"},
	} {
		n.start(tt.settings)
		job.ResourceList = hostapi.Resources{"shm_size": tt.asked}
		_, err := n.Call(t.Context(), &hostapi.Request{Event: hostapi.EventBegin, Job: job})
		if tt.want != "" {
			if hostapi.KindOf(err) != hostapi.KindJob || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v: %v", tt, err)
			}
			continue
		}
		must.NoError(t, err)
		p := n.program(job.Owner.UID, "df -k --output=size /dev/shm | tail -1")
		_, err = p.launch(job, nil)
		must.NoError(t, err)
		must.Equal(t, "size of /dev/shm", map[string]string{"2mb": "2048", "0": "1024"}[tt.asked],
			strings.TrimSpace(p.prints()))
		n.call(hostapi.EventEnd, job)
	}
}

// What one event could not remove, a later one does, on each disk.
func TestDirectoriesOnSeveralDisksGo(t *testing.T) {
	n := newNode(t)
	bases := []string{filepath.Join(n.dir, "disk1"), filepath.Join(n.dir, "disk2")}
	n.start(fmt.Sprintf(`"dirs":[{"path":"SHARED","base":%q},{"path":"/dev/shm","base":%q}]`, bases[0], bases[1]))
	for _, base := range bases {
		must.NoError(t, os.MkdirAll(filepath.Join(base, testPrefix(), overPrefix+"X", "d"), 0o700))
	}
	n.hostCall(hostapi.EventPeriodic)
	for _, base := range bases {
		must.Eventually(t, base+" is empty", func() bool {
			return len(names(t, filepath.Join(base, testPrefix()))) == 0
		})
	}
}

func TestNamespacesInARowLeaveNothing(t *testing.T) {
	n := newNode(t)
	n.start(n.dirsSettings(true), tmpSettings)
	job := jobOf("7.srv", newOwner())
	began := time.Now()
	const rounds = 50
	for range rounds {
		n.call(hostapi.EventBegin, job)
		n.call(hostapi.EventEnd, job)
	}
	t.Logf("begin and end take %v", time.Since(began)/rounds)
	must.Eventually(t, "nothing is left", func() bool { return len(n.left()) == 0 })
}
