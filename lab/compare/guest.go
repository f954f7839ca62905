package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

const (
	properties = `-q -p MemoryMax=${MEM}M -p MemorySwapMax=0 -p TasksMax=4096 -p AllowedCPUs=0 -p DevicePolicy=closed `
	scope      = `systemd-run --scope ` + properties
	service    = `systemd-run --wait --pipe --collect ` + properties
	onSystemd  = podman + `--cgroup-manager systemd --runtime crun `

	guestVersions = `echo "$(systemctl --version | head -1 | sed 's/ (.*//'), ` +
		`podman $(podman --version | sed 's/.* //') with $(crun --version | head -1 | sed 's/ version//')"`
)

// guestEngines are those of a guest whose process 1 is systemd. systemd ends a scope with its last
// process, so somebody has to stop it.
var guestEngines = []engine{
	{
		name: "systemd-run --scope", user: "root",
		run: scope + "/bin/bash $SCRIPT",
		start: "{ " + scope + "--unit=compare /bin/bash $SCRIPT; systemctl stop compare.scope; }" +
			inBackground,
		gone:     clientGone,
		services: "^/sbin/init",
	},
	{
		name: "systemd-run --wait --pipe", user: "root",
		run:       service + "/bin/bash $SCRIPT",
		start:     service + "/bin/bash $SCRIPT" + inBackground,
		gone:      clientGone,
		services:  "^/sbin/init|^[^ ]*dbus-daemon ",
		attendant: "^systemd-run",
	},
	{
		name: "podman run", user: "root",
		run:   onSystemd + container + "--rm" + podmanRoot,
		start: onSystemd + container + "-d --rm" + podmanRoot,
		gone: `! compgen -G "/sys/fs/cgroup/machine.slice/libpod-$ID*" && ` +
			"[ ! -e /run/compare/store/vfs-containers/$ID ]",
		attendant: "^[^ ]*conmon ",
	},
	hookhostAlone,
}

// measureInGuest boots a guest of a Debian suite, in which this program measures guestEngines.
func measureInGuest(ctx context.Context, suite string, rounds int) (r run, err error) {
	disk, err := os.MkdirTemp("", "compare")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(disk)
	program, err := os.Executable()
	if err != nil {
		return r, err
	}
	out := filepath.Join(disk, "out")
	for _, args := range [][]string{
		{"make", "-s", "-o", "all", "install", "DESTDIR=" + disk + "/lab/root"},
		{"cp", program, disk + "/lab/compare"},
		{"lab/vm/run", "-s", suite, "-T", "3600", "-d", disk + "/lab", "-o", out, "--",
			"./compare", "-here", "-rounds", strconv.Itoa(rounds)},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // with qemu
		if err := cmd.Run(); err != nil {
			return r, fmt.Errorf("measure in a guest: %s: %w", args[0], err)
		}
	}
	text, err := os.ReadFile(filepath.Join(out, "run.json"))
	if err != nil {
		return r, err
	}
	err = json.Unmarshal(text, &r)
	return r, err
}

// measureHere measures guestEngines in the guest in which it runs, and leaves the run in $LAB_OUT.
func measureHere(ctx context.Context, rounds int) error {
	enter = func(user string) []string { return []string{"runuser", "-u", user, "--"} }
	if _, err := sh(ctx, "root", `mkdir -p `+workDir+`
tar -C root -cf - . | tar -C / --keep-directory-symlink --no-overwrite-dir -xf -
systemctl daemon-reload
systemctl start hookhost`); err != nil {
		return err
	}
	if err := writeScripts(200); err != nil {
		return err
	}
	r, err := inTurns(ctx, rounds, guestEngines, guestVersions)
	if err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(os.Getenv("LAB_OUT"), "run.json"), text, 0o644)
}
