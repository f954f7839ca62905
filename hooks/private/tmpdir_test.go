package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestTMPDIRIsItsOwnersAndBounded(t *testing.T) {
	n := newNode(t, tmpSettings)
	uid := newOwner()
	job := jobOf("7[1].srv", uid)
	for range 2 { // the event may be repeated
		out := n.call(hostapi.EventBegin, job)
		must.Equal(t, "of attached processes", map[string]string{"TMPDIR": filepath.Join(n.dir, "run/tmp/7[1].srv")},
			out.AttachEnv)
	}
	dir := n.call(hostapi.EventLaunch, job).SetEnv["TMPDIR"]
	var st unix.Stat_t
	var fs unix.Statfs_t
	must.NoError(t, unix.Stat(dir, &st), unix.Statfs(dir, &fs))
	if int(st.Uid) != uid || int(st.Gid) != uid || st.Mode&0o7777 != 0o700 {
		t.Errorf("uid %d, gid %d, mode %o", st.Uid, st.Gid, st.Mode)
	}
	if fs.Flags&unix.ST_NOSUID == 0 || fs.Flags&unix.ST_NODEV == 0 || fs.Blocks*uint64(fs.Bsize) != 1<<20 {
		t.Errorf("flags %x, %d bytes", fs.Flags, fs.Blocks*uint64(fs.Bsize))
	}
	n.as(uid, "cd '"+dir+"' && head -c 1000000 /dev/zero >a && ! head -c 1000000 /dev/zero >b 2>err-elsewhere")
	for name, script := range map[string]string{"enter": "! ls '" + dir + "'", "list": "! ls " + n.dir + "/run/tmp"} {
		t.Run("others cannot "+name, func(t *testing.T) { n.as(uid+50, script+" 2>/dev/null") })
	}
	for _, event := range []hostapi.Event{hostapi.EventEnd, hostapi.EventEnd, hostapi.EventAbort} {
		n.call(event, job)
		must.Equal(t, "left", none, n.tmpDirs())
	}
	n.call(hostapi.EventBegin, job)
	n.call(hostapi.EventAbort, job)
	must.Equal(t, "left", none, n.tmpDirs())
	unknown := &hostapi.Request{Event: hostapi.EventBegin, Job: jobOf("8.srv", -1)}
	if _, err := n.Call(t.Context(), unknown); hostapi.KindOf(err) != hostapi.KindNode {
		t.Errorf("an owner without a uid: %v", err)
	}
	must.Equal(t, "left", none, n.tmpDirs())
}

// What an owner mounts on the TMPDIR or below, and who has it open, holds up nothing.
func TestTMPDIRGoesWhateverIsMountedOnIt(t *testing.T) {
	n := newNode(t, tmpSettings)
	uid := newOwner()
	job := jobOf("7.srv", uid)
	n.call(hostapi.EventBegin, job)
	dir := n.call(hostapi.EventLaunch, job).SetEnv["TMPDIR"]
	fuse, asked, _ := kernfstest.HangingFUSE(t, uid)
	n.as(uid, "mkdir "+dir+"/below; echo >"+dir+"/open")
	open, err := os.Open(dir + "/open")
	must.NoError(t, err)
	defer open.Close()
	must.NoError(t, unix.Mount(fuse, dir+"/below", "", unix.MS_BIND, ""), unix.Mount(fuse, dir, "", unix.MS_BIND, ""))
	began := time.Now()
	n.call(hostapi.EventLaunch, job)
	n.hostCall(hostapi.EventPeriodic, job)
	n.call(hostapi.EventEnd, job)
	if took := time.Since(began); took > freeTime/2 || asked() > 0 {
		t.Errorf("it took %v and %d questions to the file system", took, asked())
	}
	must.Equal(t, "left", none, n.tmpDirs())
	b, err := os.ReadFile("/proc/self/mountinfo")
	must.NoError(t, err)
	if strings.Contains(string(b), n.dir) {
		t.Errorf("it is still mounted:\n%s", b)
	}
}

// A program that starts anew finds the TMPDIRs of live jobs, and detaches the others.
func TestStartupRemovesTMPDIRsOfJobsThatAreOver(t *testing.T) {
	n := newNode(t, tmpSettings)
	lives, over := jobOf("7.srv", newOwner()), jobOf("8.srv", newOwner())
	n.call(hostapi.EventBegin, lives)
	n.call(hostapi.EventBegin, over)
	for _, event := range []hostapi.Event{hostapi.EventStartup, hostapi.EventPeriodic} {
		n.start() // without [private] too
		out := n.hostCall(event, lives)
		must.Equal(t, string(event)+" left", []string{"7.srv"}, n.tmpDirs())
		must.Equal(t, "of attached processes", filepath.Join(n.dir, "run/tmp/7.srv"),
			out.Jobs["7.srv"].AttachEnv["TMPDIR"])
		n.start(tmpSettings)
		n.call(hostapi.EventBegin, over)
	}
}

func TestLaunchNeedsTheTMPDIR(t *testing.T) {
	n := newNode(t)
	job := jobOf("7.srv", newOwner())
	launch := func(pid int) (*hostapi.Outcome, error) {
		return n.Call(t.Context(), &hostapi.Request{Event: hostapi.EventLaunch, Job: job, PID: pid})
	}
	n.call(hostapi.EventBegin, job)
	n.start(tmpSettings)
	if out, err := launch(os.Getpid()); err != nil || len(out.SetEnv) > 0 {
		t.Errorf("a job that began without a TMPDIR: %v, %v", out, err)
	}
	n.call(hostapi.EventBegin, job)
	dir := filepath.Join(n.dir, "run/tmp/7.srv")
	if out, err := launch(os.Getpid()); err != nil || out.SetEnv["TMPDIR"] != dir {
		t.Errorf("%v, %v", out, err)
	}
	// A process that does not see the mount.
	cmd := exec.Command("/bin/sh", "-c", `umount "$1" && echo && exec sleep 600`, "sh", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	must.NoError(t, err, cmd.Start())
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	_, err = stdout.Read(make([]byte, 1))
	must.NoError(t, err)
	if _, err := launch(cmd.Process.Pid); hostapi.KindOf(err) != hostapi.KindNode ||
		!strings.Contains(err.Error(), "process "+strconv.Itoa(cmd.Process.Pid)+" is in another mount namespace") {
		t.Errorf("in another mount namespace: %v", err)
	}
	must.NoError(t, unix.Unmount(dir, 0))
	if _, err := launch(os.Getpid()); hostapi.KindOf(err) != hostapi.KindNode ||
		!strings.Contains(err.Error(), "not mounted any more") {
		t.Errorf("unmounted: %v", err)
	}
}
