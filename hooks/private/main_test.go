package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/hostapi/hooktest"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/mountns"
	"github.com/hookhost/hookhost/internal/must"
)

// TestMain has an end wait for its removal even on a machine that is busy.
func TestMain(m *testing.M) {
	cleanTime = time.Minute
	os.Exit(kernfstest.Run(m, testPrefix()))
}

func testPrefix() string { return fmt.Sprintf("hhtest_hookprivate_%d", os.Getpid()) }

// node is a place for the hook: a directory of the daemon's, and one that everybody may write to.
type node struct {
	*hooktest.Hook
	t           testing.TB
	dir, shared string
}

func newNode(t testing.TB, settings ...string) *node {
	t.Helper()
	kernfstest.NeedRoot(t)
	dir, err := os.MkdirTemp("", "hhtest_private")
	must.NoError(t, err)
	n := &node{t: t, dir: dir, shared: filepath.Join(dir, "shared")}
	t.Cleanup(func() {
		for kind, names := range map[string][]string{"tmp": n.tmpDirs(), "runtime": n.runtimeDirs()} {
			for _, name := range names {
				for unix.Unmount(filepath.Join(dir, "run", kind, name), unix.MNT_DETACH) == nil {
				}
			}
		}
		for _, job := range names(t, filepath.Join(dir, "run/ns")) {
			must.NoError(t, mountns.Unpin(filepath.Join(dir, "run/ns", job)))
		}
		must.NoError(t, mountns.Detach(filepath.Join(dir, "run/ns")))
		must.NoError(t, os.RemoveAll(dir))
	})
	must.NoError(t, os.Chmod(dir, 0o755), os.Mkdir(n.shared, 0o755), os.Chmod(n.shared, os.ModeSticky|0o777),
		os.Mkdir(filepath.Join(dir, "run"), 0o711), os.Chmod(filepath.Join(dir, "run"), 0o711))
	n.start(settings...)
	return n
}

// start starts the hook's program anew, with these settings of [private] as JSON.
func (n *node) start(settings ...string) {
	n.t.Helper()
	text := fmt.Sprintf(`{"cgroup":{"prefix":%q},"private":{%s}}`, testPrefix(), strings.Join(settings, ","))
	h, err := hooktest.Try(n.t, newHook, hostapi.SetupData{Config: []byte(strings.ReplaceAll(text, "SHARED", n.shared)),
		Host: map[string]string{"run_dir": filepath.Join(n.dir, "run")}})
	must.NoError(n.t, err)
	n.Hook = h
}

const (
	tmpSettings   = `"tmp":true,"tmp_size":"1mb"`
	cleanSettings = `"clean_dirs":["SHARED","/there/is/none"],"clean_ipc":true`
)

// call sends an event that must not fail.
func (n *node) call(event hostapi.Event, job *hostapi.Job) *hostapi.Outcome {
	n.t.Helper()
	out, err := n.Call(n.t.Context(), &hostapi.Request{Event: event, Job: job})
	must.NoError(n.t, err)
	return out
}

// hostCall sends an event of the host, where these jobs live.
func (n *node) hostCall(event hostapi.Event, jobs ...*hostapi.Job) *hostapi.Outcome {
	n.t.Helper()
	list := map[string]*hostapi.Job{}
	for _, job := range jobs {
		list[job.ID] = job
	}
	out, err := n.Call(n.t.Context(), &hostapi.Request{Event: event, JobList: list})
	must.NoError(n.t, err)
	return out
}

// tmpDirs are the names in the directory of TMPDIRs.
func (n *node) tmpDirs() []string { return names(n.t, filepath.Join(n.dir, "run/tmp")) }

// marks are the users whose leftovers are to be removed.
func (n *node) marks() []string { return names(n.t, filepath.Join(n.dir, "run/users")) }

func names(t testing.TB, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

var owners atomic.Int32

// newOwner returns a uid that has no processes, and no files but the test's.
func newOwner() int { return 2_000_000_000 + os.Getpid()%1_000_000*100 + int(owners.Add(1)) }

func jobOf(id string, uid int) *hostapi.Job {
	return &hostapi.Job{ID: id, Owner: hostapi.Owner{User: "u", UID: uid, GID: uid}}
}

// command is a shell script of a user's.
func command(ctx context.Context, uid int, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-ec", script)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	return cmd
}

// as runs a script as a user.
func (n *node) as(uid int, script string) {
	n.t.Helper()
	cmd := command(n.t.Context(), uid, script)
	cmd.Dir = n.shared
	if out, err := cmd.CombinedOutput(); err != nil {
		n.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// none is an empty list of names.
var none []string

// tick waits until the kernel's time of files has changed.
func tick() { time.Sleep(20 * time.Millisecond) }

// tree lists the files below a directory.
func tree(t testing.TB, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if path != dir && err == nil {
			list = append(list, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	must.NoError(t, err)
	slices.Sort(list)
	return list
}
