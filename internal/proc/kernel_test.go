package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func procFS(t testing.TB) *kernfs.FS {
	t.Helper()
	f, err := kernfs.Open("/proc")
	must.NoError(t, err)
	return f
}

// v1Controllers are those whose hierarchies jobCgroup takes on v1.
var v1Controllers = []string{"cpu", "memory", "pids", "cpuset"}

// jobCgroup makes a cgroup in each of some v1 hierarchies and in the v2 tree of this machine, where
// it has them.
func jobCgroup(t testing.TB, name string) hostapi.Join {
	t.Helper()
	const root = "/sys/fs/cgroup"
	name = fmt.Sprintf("hhtest_proc_%d_%s", os.Getpid(), name)
	var join hostapi.Join
	controllers, v2 := v1Controllers, filepath.Join(root, "unified")
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil { // there is no other tree
		controllers, v2 = nil, root
	}
	for _, controller := range controllers {
		dir := filepath.Join(root, controller, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			kernfstest.Skip(t, "no cgroup v1 here: %v", err)
		}
		t.Cleanup(func() { removeCgroup(t, dir) })
		if controller == "cpuset" {
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				b, err := os.ReadFile(filepath.Join(root, controller, file))
				must.NoError(t, err)
				must.NoError(t, os.WriteFile(filepath.Join(dir, file), bytes.TrimSpace(b), 0))
			}
		}
		join.Tasks = append(join.Tasks, filepath.Join(dir, "tasks"))
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil {
		t.Fatal(err)
	} else if !bytes.Contains(mounts, []byte(" - cgroup2 ")) {
		return join
	}
	join.CgroupDir = filepath.Join(v2, name)
	if err := os.Mkdir(join.CgroupDir, 0o755); err != nil {
		kernfstest.Skip(t, "no cgroup v2 here: %v", err)
	}
	t.Cleanup(func() { removeCgroup(t, join.CgroupDir) })
	return join
}

// removeCgroup removes a cgroup whose processes have ended. A reaped process still holds its cgroup
// for a moment.
func removeCgroup(t testing.TB, dir string) {
	deadline := time.Now().Add(5 * time.Second)
	for {
		err := unix.Rmdir(dir)
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			t.Errorf("remove %s: %v", dir, err)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// cgroups parses /proc/PID/cgroup into hierarchy -> path.
func cgroups(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			m[f[1]] = f[2]
		}
	}
	return m
}

// want returns what /proc/PID/cgroup holds for a member of join.
func want(join hostapi.Join) map[string]string {
	m := map[string]string{}
	if join.CgroupDir != "" {
		m[""] = "/" + filepath.Base(join.CgroupDir)
	}
	for _, tasks := range join.Tasks {
		dir := filepath.Dir(tasks)
		// systemd mounts cpu and cpuacct together, and links to that.
		mount, err := filepath.EvalSymlinks(filepath.Dir(dir))
		if err != nil {
			panic(err)
		}
		m[filepath.Base(mount)] = "/" + filepath.Base(dir)
	}
	return m
}

// threads returns the cgroups of every thread of this process.
func threads(t testing.TB) map[int]string {
	t.Helper()
	dirs, err := os.ReadDir("/proc/self/task")
	must.NoError(t, err)
	m := map[int]string{}
	for _, d := range dirs {
		b, err := os.ReadFile("/proc/self/task/" + d.Name() + "/cgroup")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue
		}
		must.NoError(t, err)
		tid, _ := strconv.Atoi(d.Name())
		m[tid] = string(b)
	}
	return m
}
