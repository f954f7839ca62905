package main_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// driverVersion is the file by which NVIDIA's driver is known to be loaded.
const driverVersion = "/proc/driver/nvidia/version"

// withNVML lays the programs out once more, with an nvml that never answers beside them. The
// results are the program to start, and a function that tells which calls of nvml hang, by their
// pids.
func (n *node) withNVML() (program string, hanging func() map[int]string) {
	n.t.Helper()
	hooks, err := filepath.Glob(filepath.Join(built, "hooks/*"))
	must.NoError(n.t, err)
	for _, from := range append(hooks, filepath.Join(built, "hookhost")) {
		to := n.path("bin") + strings.TrimPrefix(from, built)
		must.NoError(n.t, os.MkdirAll(filepath.Dir(to), 0o755))
		must.NoError(n.t, duplicate(from, to))
	}
	calls := n.path("nvml.calls")
	stub := fmt.Sprintf("#!/bin/sh\necho $$ $* >>%s\nexec sleep 1234\n", calls)
	must.NoError(n.t, os.WriteFile(n.path("bin/nvml"), []byte(stub), 0o755))
	hanging = func() map[int]string {
		list := map[int]string{}
		text, _ := os.ReadFile(calls)
		for line := range strings.Lines(string(text)) {
			number, args, _ := strings.Cut(strings.TrimSpace(line), " ")
			pid, err := strconv.Atoi(number)
			if cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil &&
				string(cmdline) == "sleep\x001234\x00" {
				list[pid] = args
			}
		}
		return list
	}
	n.t.Cleanup(func() {
		for pid := range hanging() { // a hook that is killed leaves them their own time limit
			unix.Kill(pid, unix.SIGKILL)
		}
	})
	return n.path("bin/hookhost"), hanging
}

func duplicate(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, r); err != nil {
		w.Close()
		return err
	}
	return w.Close()
}

// startBesideDriver starts a command where NVIDIA's driver seems to be loaded: /proc/driver is
// another for it alone.
func startBesideDriver(cmd *exec.Cmd) error {
	return startAmong(cmd, func() error {
		if err := unix.Mount("none", "/proc/driver", "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mount /proc/driver: %w", err)
		}
		// The thread's own name is used: /proc/self is the process's first thread, which has the
		// other mounts.
		if err := os.MkdirAll(filepath.Dir(driverVersion)+"/gpus", 0o755); err != nil {
			return err
		}
		return os.WriteFile(driverVersion, []byte("NVRM version: 1\n"), 0o644)
	})
}

// A library that hangs keeps nobody waiting but who looks for devices, and doctor tells of it.
func TestHangingNVML(t *testing.T) {
	must.BesideOthers(t)
	config := func(timeout string) string { return "[devices]\ncdi_dir = \"\"\nprobe_timeout = \"" + timeout + "\"\n" }
	n := newNode(t, config("1s"))
	if exists(driverVersion) {
		kernfstest.Elsewhere(t, "this machine has NVIDIA's driver")
	}
	program, hanging := n.withNVML()
	d := n.serveBy(func(cmd *exec.Cmd) error {
		cmd.Path, cmd.Args[0] = program, program
		return startBesideDriver(cmd)
	})
	life := func(id string) {
		t.Helper()
		job := `{"job": {"id": "` + id +
			`", "owner": {"user": "root", "uid": 0, "gid": 0}, "resource_list": {"ncpus": 0}}}`
		for _, event := range []string{"execjob_begin", "execjob_prologue", "execjob_resize", "execjob_epilogue",
			"execjob_end"} {
			if r := n.send(event, job); r.status != 0 {
				t.Errorf("%s was rejected", event)
			}
		}
	}
	life("21.x") // begin waits for startup, and that for the look
	must.Eventually(t, "doctor tells of it", func() bool {
		r := n.hookhost("doctor")
		return strings.Contains(strings.Join(strings.Fields(r.stdout), " "),
			"devices: nvml ask NVML inventory: no answer within 1")
	})
	d.stop()

	// Now it hangs for as long as it likes, and the events go on.
	text, err := os.ReadFile(n.path("hookhost.toml"))
	must.NoError(t, err)
	must.NoError(t, os.WriteFile(n.path("hookhost.toml"),
		[]byte(strings.Replace(string(text), config("1s"), config("50s"), 1)), 0o600))
	n.serveBy(func(cmd *exec.Cmd) error {
		cmd.Path, cmd.Args[0] = program, program
		return startBesideDriver(cmd)
	})
	if r := n.send("exechost_periodic", `{"vnode_list": {}}`); r.status != 0 {
		t.Error("exechost_periodic was rejected")
	}
	asked := func() bool {
		for _, args := range hanging() {
			if strings.HasSuffix(args, " inventory") {
				return true
			}
		}
		return false
	}
	must.Eventually(t, "NVML is asked", asked)
	life("22.x")
	if !asked() {
		t.Errorf("events waited until NVML was given up: %v", hanging())
	}
}
