package doctor

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// lingering is what users do to have a systemd without a login.
const lingering = "org.freedesktop.login1.set-self-linger"

// examineServices reports services by which users start programs outside of their jobs. root is the
// node's file system. linger means that polkit lets users linger.
func examineServices(root fs.FS, linger bool) []Finding {
	exists := func(name string) bool { _, err := fs.Stat(root, name); return err == nil }
	var findings []Finding
	if linger {
		findings = append(findings, degraded("systemd of users",
			"polkit lets users start it from a job, by loginctl enable-linger: it is outside of all jobs",
			"install the rule of polkit that docs/pam.md describes"))
	}
	if exists("usr/bin/crontab") && !exists("etc/cron.allow") {
		findings = append(findings, degraded("cron", "users may start programs outside of their jobs by crontab",
			"create an empty /etc/cron.allow"))
	}
	if exists("usr/bin/at") && exists("etc/at.deny") && !exists("etc/at.allow") {
		findings = append(findings, degraded("at", "users may start programs outside of their jobs by at and batch",
			"create an empty /etc/at.allow"))
	}
	return append(findings, examineSu(root)...)
}

// mayLinger asks polkit whether a user may linger: the user nobody if this process is root's, whom
// polkit allows everything. It returns false without polkit, without which systemd-logind refuses
// that to users.
func mayLinger(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "exec pkcheck --action-id "+lingering+" --process $$")
	cmd.Dir = "/"
	if os.Geteuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd.Run() == nil
}
