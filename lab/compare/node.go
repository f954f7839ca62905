package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	labName = "hhcompare"
	node    = "node1"
	pbsHome = "/var/spool/pbs"
	// workDir is on the node and in podman's container. Jobs of alice's and root's write there.
	workDir = "/srv/" + labName + "/home/alice/compare"
)

// up starts a lab of one node. If that fails, or ctx ends, nothing remains.
func up(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "lab/openpbs/up")
	cmd.Env = append(os.Environ(), "LAB="+labName)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("start lab %s: %w", labName, err)
	}
	return nil
}

// install installs hookhost on the node, and starts all services.
func install(ctx context.Context) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	for _, line := range []string{
		"make -s -C " + root + " -o all install >/dev/null",
		`setsid hookhost serve >/var/log/hookhost.log 2>&1 </dev/null &
for i in $(seq 100); do runuser -u nobody -- hookhost jobs >/dev/null 2>&1 && exit; sleep 0.1; done; exit 1`,
		"hookhost openpbs install --freq 5",
		filepath.Join(root, "lab/compare/start-slurm"),
	} {
		if _, err := sh(ctx, "root", line); err != nil {
			return err
		}
	}
	return writeScripts(1000)
}

// down removes the lab, also after a signal.
func down() error {
	cmd := exec.Command("lab/openpbs/down")
	cmd.Env = append(os.Environ(), "LAB="+labName)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("remove lab %s: %w: %s", labName, err, out)
	}
	return nil
}

// enter is the command that runs another as a user: on the node, or in the guest.
var enter = func(user string) []string { return []string{"lab/openpbs/in", "-u", user, node} }

// sh runs a shell line on the node and returns what it prints. A line that takes longer than five
// minutes fails.
func sh(ctx context.Context, user, line string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	args := append(enter(user), "bash", "-c", line)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "LAB="+labName)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s@%s: %s: %w: %s", user, node, line, err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(out.String()), nil
}
