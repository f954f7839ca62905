package main

import (
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

const runtimeSettings = `"runtime_dir":true`

// runtimeDirs are the users who have a directory, by uid.
func (n *node) runtimeDirs() []string { return names(n.t, filepath.Join(n.dir, "run/runtime")) }

// begin begins a job that has a cgroup, as hook cgroup makes it.
func (n *node) begin(job *hostapi.Job) (out *hostapi.Outcome, removeCgroup func()) {
	n.t.Helper()
	roots, err := kernfs.OpenRoots()
	must.NoError(n.t, err)
	tree, err := cgroup.Detect(roots, cgroup.Options{Prefix: testPrefix()})
	must.NoError(n.t, err, tree.Prepare())
	j, err := tree.Job(job.ID)
	must.NoError(n.t, err, j.Create(cgroup.Limits{}),
		j.SetJobMark(cgroup.JobMark{Begin: &hostapi.Request{Event: hostapi.EventBegin, Job: job}}))
	remove := func() { n.t.Helper(); must.NoError(n.t, j.Remove(n.t.Context())) }
	return n.call(hostapi.EventBegin, job), remove
}

// A user has the directory from the first job's begin to the last one's end. Its jobs share it.
func TestRuntimeDirLastsAsLongAsAJobOfItsUser(t *testing.T) {
	t.Cleanup(func() { kernfstest.RemoveUnit(t, testPrefix()) })
	n := newNode(t, runtimeSettings)
	uid, other := newOwner(), newOwner()
	first, second, others := jobOf("7.srv", uid), jobOf("8.srv", uid), jobOf("9.srv", other)
	dir := filepath.Join(n.dir, "run/runtime", strconv.Itoa(uid))
	want := map[string]string{"XDG_RUNTIME_DIR": dir}
	out, endFirst := n.begin(first)
	must.Equal(t, "of attached processes", want, out.AttachEnv)
	n.as(uid, "echo >"+dir+"/state")
	_, endSecond := n.begin(second)
	_, endOthers := n.begin(others)
	n.call(hostapi.EventBegin, second) // the event may be repeated
	out = n.call(hostapi.EventLaunch, second)
	must.Equal(t, "of programs", want, out.SetEnv)
	must.Equal(t, "of another host", []string{"DBUS_SESSION_BUS_ADDRESS"}, out.UnsetEnv)
	n.as(uid, "test -e "+dir+"/state && stat -c '%u %a' "+dir+" | grep -qx '"+strconv.Itoa(uid)+" 700'")
	n.as(other, "! ls "+dir+" 2>/dev/null && ! ls "+filepath.Dir(dir)+" 2>/dev/null")
	var fs unix.Statfs_t
	must.NoError(t, unix.Statfs(dir, &fs))
	if fs.Flags&unix.ST_NOSUID == 0 || fs.Flags&unix.ST_NODEV == 0 || fs.Blocks*uint64(fs.Bsize) != runtimeSize ||
		fs.Files != runtimeFiles {
		t.Errorf("flags %x, %d bytes, %d files", fs.Flags, fs.Blocks*uint64(fs.Bsize), fs.Files)
	}

	endFirst()
	n.call(hostapi.EventEnd, first)
	n.start() // without [private] too
	up := n.hostCall(hostapi.EventStartup, second, others)
	must.Equal(t, "of attached processes after a restart", want, up.Jobs["8.srv"].AttachEnv)
	must.Equal(t, "while a job lives", 2, len(n.runtimeDirs()))
	n.as(uid, "test -e "+dir+"/state")
	endSecond()
	n.call(hostapi.EventAbort, second)
	must.Equal(t, "after the last job", []string{strconv.Itoa(other)}, n.runtimeDirs())
	endOthers() // its end is lost
	n.hostCall(hostapi.EventPeriodic)
	must.Equal(t, "without jobs", none, n.runtimeDirs())
	if out := n.call(hostapi.EventLaunch, second); len(out.SetEnv)+len(out.UnsetEnv) > 0 {
		t.Errorf("a job that began without it: %+v", out)
	}
}
