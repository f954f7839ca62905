package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/prometheus/procfs"
)

// stat returns what proc(5) has of a process; all zero of one that is not there.
func stat(pid int) procfs.ProcStat {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}
	}
	s, _ := p.Stat()
	return s
}

// state is the state of a process as proc(5) has it; "" of one that has ended.
func state(pid int) string { return stat(pid).State }

// parentOf returns the pid of a process's parent, 0 for none.
func parentOf(pid int) int { return stat(pid).PPID }

// childrenOf returns the processes whose parent is pid.
func childrenOf(pid int) []int {
	var pids []int
	all, _ := procfs.AllProcs()
	for _, p := range all {
		pids = append(pids, p.PID)
	}
	return slices.DeleteFunc(pids, func(child int) bool { return parentOf(child) != pid })
}

// processesNamed returns the pids whose command line is args.
func processesNamed(args ...string) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if string(b) == strings.Join(args, "\x00")+"\x00" {
			pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// allowed is on how many cpus a process may run.
func allowed(t *testing.T, pid int) int {
	t.Helper()
	return len(listOf(allowedCPUs(t, pid)))
}

// allowedCPUs is on which cpus a process may run, as a list.
func allowedCPUs(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if list, found := strings.CutPrefix(line, "Cpus_allowed_list:"); found {
			return strings.TrimSpace(list)
		}
	}
	t.Fatalf("no cpus in %s", b)
	return ""
}

// startAmong starts a command among mounts of its own, which change makes of this machine's.
func startAmong(cmd *exec.Cmd, change func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is thrown away
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
				return fmt.Errorf("unshare: %w", err)
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return fmt.Errorf("mount / private: %w", err)
			}
			if err := change(); err != nil {
				return err
			}
			return cmd.Start()
		}()
	}()
	return <-done
}
