package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// asUser runs f on a thread that permanently becomes another user. These system calls affect only
// one thread, and the thread ends with f.
func asUser(t *testing.T, uid int, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with its goroutine
		id := uintptr(uid)
		for _, call := range [][4]uintptr{
			{unix.SYS_SETGROUPS}, {unix.SYS_SETRESGID, id, id, id}, {unix.SYS_SETRESUID, id, id, id},
		} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				done <- fmt.Errorf("system call %d: %w", call[0], errno)
				return
			}
		}
		f()
		done <- nil
	}()
	must.NoError(t, <-done)
}

// A job belongs to its owner, but its cgroup belongs to root. The owner cannot change limits, thaw
// the job or move processes in or out. The owner cannot forge the marks that say what the job was
// given. Files that everybody may read can be read by name. Only root can list the directories,
// because listing holds their locks.
func TestOwnerOfAJobCanWriteNothingOfItsCgroup(t *testing.T) {
	const owner = 65534
	// The kernel lets everybody register here for events of files that they may read.
	everybodys := []string{"cgroup.event_control"}
	for _, mode := range []Mode{0, ModeV1, ModeV2} {
		t.Run(mode.String(), func(t *testing.T) {
			tree := needKernel(t, mode).tree(t)
			j := newJob(t, tree, testJob, tree.someLimits())
			a := startActor(t, j.Join())
			files := map[string][]os.DirEntry{}
			for _, d := range j.dirs {
				leaf := d.Path(".")
				for _, dir := range []string{leaf, path.Dir(leaf), path.Dir(path.Dir(leaf))} {
					if entries, err := os.ReadDir(dir); err == nil { // else the job is not in this hierarchy
						files[dir] = entries
						info, err := os.Stat(dir)
						if must.NoError(t, err); info.Mode().Perm() != kernfs.Unlisted {
							t.Errorf("%s has mode %v", dir, info.Mode())
						}
						if dir != leaf || !d.h.v2 {
							must.NoError(t, os.Chmod(dir, 0o755)) // as systemd creates the unit, and pbs_cgroups a job
						}
					}
				}
			}
			must.NoError(t, tree.Prepare())
			must.Eventually(t, "only root can list the directories", func() bool {
				return !slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(dir string) bool {
					info, err := os.Stat(dir)
					return err != nil || info.Mode().Perm() != kernfs.Unlisted
				})
			})
			tried := 0
			asUser(t, owner, func() {
				for dir, entries := range files {
					if _, err := os.ReadDir(dir); !errors.Is(err, unix.EACCES) {
						t.Errorf("list %s: %v", dir, err)
					}
					for _, f := range entries {
						if f.IsDir() || slices.Contains(everybodys, f.Name()) {
							continue
						}
						tried++
						name := filepath.Join(dir, f.Name())
						if _, err := os.ReadFile(name); f.Name() == "cgroup.controllers" && err != nil {
							t.Error(err)
						}
						fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
						if err == nil {
							unix.Close(fd)
						}
						if !errors.Is(err, unix.EACCES) {
							t.Errorf("open %s for writing: %v", name, err)
						}
						if err := unix.Chmod(name, 0o666); !errors.Is(err, unix.EPERM) {
							t.Errorf("chmod %s: %v", name, err)
						}
					}
					for what, err := range map[string]error{
						"a cgroup below": unix.Mkdir(filepath.Join(dir, "below"), 0o755),
						"another name":   unix.Rename(dir, dir+".x"),
						"a removal":      unix.Rmdir(dir),
						"another owner":  unix.Chown(dir, owner, owner),
						"a mark":         unix.Setxattr(dir, jobMark, []byte("{}"), 0),
					} {
						if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
							t.Errorf("%s: %s: %v", dir, what, err)
						}
					}
				}
			})
			if tried < 10 {
				t.Errorf("%d files of %d directories were tried", tried, len(files))
			}
			if id, ok, err := tree.JobOf(a.pid()); id != testJob || !ok || err != nil {
				t.Errorf("process %d is in job %q, %v, %v", a.pid(), id, ok, err)
			}
			if m, err := j.Mark(jobMark); err != nil || string(m) == "{}" {
				t.Errorf("the mark: %s, %v", m, err)
			}
		})
	}
}
