package main_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cgroups returns the node's directories that match, in every hierarchy: below /sys/fs/cgroup
// where that is v2, else below a folder of each. A second name of a hierarchy, such as systemd's
// link from cpu to cpu,cpuacct, is passed over.
func (n *node) cgroups(pattern string) []string {
	folders, _ := filepath.Glob("/sys/fs/cgroup/*")
	var dirs []string
	for _, top := range append([]string{"/sys/fs/cgroup"}, folders...) {
		if info, err := os.Lstat(top); err != nil || !info.IsDir() {
			continue
		}
		found, _ := filepath.Glob(top + "/" + n.prefix + ".service" + pattern)
		dirs = append(dirs, found...)
	}
	return dirs
}

// memoryDir is where the memory controller's files of a job are.
func (n *node) memoryDir(job string) string {
	if exists("/sys/fs/cgroup/cgroup.controllers") {
		return "/sys/fs/cgroup/" + n.prefix + ".service/jobs/" + job
	}
	return "/sys/fs/cgroup/memory/" + n.prefix + ".service/jobid/" + job
}

// cgroupOf returns the cgroup of a controller in the text of a /proc/PID/cgroup: where v1 does not
// have it, that of v2.
func cgroupOf(text, controller string) string {
	v2 := ""
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, dir, _ := strings.Cut(rest, ":")
		switch {
		case slices.Contains(strings.Split(controllers, ","), controller):
			return dir
		case strings.HasPrefix(line, "0::"):
			v2 = dir
		}
	}
	return v2
}

func (n *node) jobDirs() []string {
	return append(n.cgroups("/jobid/*/cgroup.procs"), n.cgroups("/jobs/*/cgroup.procs")...)
}

// removeCgroups removes what is the node's own. Processes in it were started by this test.
func (n *node) removeCgroups() {
	for _, procs := range n.jobDirs() {
		b, _ := os.ReadFile(procs)
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	n.stopUnit()
	for range 250 {
		left := 0
		for _, pattern := range []string{"/jobid/*", "/jobs/*", "/jobid", "/jobs", "/keeper", ""} {
			for _, dir := range n.cgroups(pattern) {
				if info, err := os.Stat(dir); err == nil && info.IsDir() && os.Remove(dir) != nil {
					left++
				}
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond) // until the killed are gone: nobody tells us about v1
	}
}

// stopUnit stops the unit that hookhost had systemd make for the node's jobs, and so its keeper.
// The unit refuses to be stopped by hand (RefuseManualStop=), but not for another that it
// conflicts with.
func (n *node) stopUnit() {
	unit := n.prefix + ".service"
	if _, err := os.Readlink("/run/systemd/units/invocation:" + unit); err != nil {
		return // not active
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemd-run", "--quiet", "--collect", "--unit="+n.prefix+"-end",
		"--property=Conflicts="+unit, "true").CombinedOutput()
	if err != nil {
		n.t.Logf("stop %s: %v: %s", unit, err, out)
	}
}
