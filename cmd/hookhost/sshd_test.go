package main_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// sshd is a real sshd with the PAM stack of docs/pam.md. It runs in a mount namespace with its own
// /etc. The users nobody and stranger can log in with a key.
type sshd struct {
	n    *node
	port string
}

// startSSHD mounts the folder etc of the folder $1 and becomes sshd. It needs a folder in /run,
// which is only the machine's own if PAM asks logind.
const startSSHD = `set -e
mount --bind "$1/etc" /etc
grep -q pam_systemd /etc/pam.d/sshd || mount -t tmpfs tmpfs /run
mkdir -p /run/sshd
exec /usr/sbin/sshd -D -e -f "$1/ssh/sshd_config"`

// pamStack is what docs/pam.md has, with the node's paths. But users may set variables before
// hookhost is called.
const pamStack = `auth    required pam_deny.so
account required pam_permit.so
account required pam_exec.so quiet stdout %[1]s pam account
session required pam_permit.so
%[3]s
session optional pam_env.so user_readenv=1 envfile=/dev/null
session [success=ignore default=1] pam_exec.so quiet type=open_session %[1]s pam environment
session optional pam_env.so envfile=%[2]s
session required pam_exec.so quiet stdout type=open_session %[1]s pam session
`

func newSSHD(n *node) *sshd {
	n.t.Helper()
	if os.Getenv("HOOKHOST_TEST_BIN") != "" {
		kernfstest.Elsewhere(n.t, "sshd: this machine's kernel tests have it")
	}
	return newSSHDWith(n, "")
}

// newSSHDWith is newSSHD with further lines of the PAM stack, before those of hookhost.
func newSSHDWith(n *node, lines string) *sshd {
	n.t.Helper()
	for _, program := range []string{"/usr/sbin/sshd", "ssh", "ssh-keygen", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			kernfstest.Skip(n.t, "needs %s: scripts/need packages", program)
		}
	}
	n.open()
	s := &sshd{n: n}
	must.NoError(n.t, os.Mkdir(n.path("ssh"), 0o711), os.Mkdir(n.path("home"), 0o777),
		os.Chmod(n.path("home"), 0o777), exec.Command("cp", "-a", "/etc", n.path("etc")).Run())
	for _, key := range []string{"key", "hostkey"} {
		must.NoError(n.t, exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", n.path("ssh/"+key)).Run())
	}
	hookhost := fmt.Sprintf("%s --config %s --state %s --socket %s", filepath.Join(built, "hookhost"),
		n.path("hookhost.toml"), n.path("state"), n.path("run/s"))
	s.file("etc/pam.d/sshd", fmt.Sprintf(pamStack, hookhost, n.path("run/pam.env"), lines))
	s.file("home/.pam_environment", "PAM_USER DEFAULT=root\nPAM_TYPE DEFAULT=account\n"+
		"LD_DEBUG DEFAULT=files\nLD_DEBUG_OUTPUT DEFAULT="+n.path("home/loaded")+"\n")
	home := "::" + n.path("home") + ":/bin/sh"
	s.users("passwd", "nobody:x:65534:65534"+home, "stranger:x:65533:65533"+home)
	s.users("shadow", "nobody:*:19000:0:99999:7:::", "stranger:*:19000:0:99999:7:::")
	s.port = freePort(n.t) // others may take it until sshd has it
	s.file("ssh/known", fmt.Sprintf("[127.0.0.1]:%s %s", s.port, n.text(n.path("ssh/hostkey.pub"))))
	s.file("ssh/sshd_config", fmt.Sprintf(`Port %s
ListenAddress 127.0.0.1
HostKey %[2]s/hostkey
AuthorizedKeysFile %[2]s/key.pub
StrictModes no
UsePAM yes
KbdInteractiveAuthentication no
PidFile none
AcceptEnv PBS_JOBID
PrintMotd no
MaxStartups 300
MaxSessions 300
Subsystem sftp internal-sftp
`, s.port, n.path("ssh")))
	log, err := os.Create(n.path("sshd.log"))
	must.NoError(n.t, err)
	defer log.Close()
	daemon := exec.Command("unshare", "--mount", "--propagation", "slave", "sh", "-c", startSSHD, "sh", n.dir)
	daemon.Stdout, daemon.Stderr = log, log
	must.NoError(n.t, daemon.Start())
	n.t.Cleanup(func() {
		daemon.Process.Kill()
		daemon.Wait()
		if text, _ := os.ReadFile(log.Name()); n.t.Failed() {
			n.t.Logf("sshd's log:\n%s", text)
		}
	})
	must.Eventually(n.t, "sshd listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+s.port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return s
}

// users writes a copy of a file in /etc with other lines for the users that log in.
func (s *sshd) users(name string, lines ...string) {
	s.n.t.Helper()
	text := ""
	for line := range strings.Lines(s.n.text("/etc/" + name)) {
		if !strings.HasPrefix(line, "nobody:") {
			text += line
		}
	}
	s.file("etc/"+name, text+strings.Join(lines, "\n")+"\n")
}

// text returns the text of a file.
func (n *node) text(path string) string {
	n.t.Helper()
	b, err := os.ReadFile(path)
	must.NoError(n.t, err)
	return string(b)
}

// file writes a file that everybody may read.
func (s *sshd) file(name, text string) {
	s.n.t.Helper()
	must.NoError(s.n.t, os.WriteFile(s.n.path(name), []byte(text), 0o644))
}

// command returns ssh, scp or sftp with the options to reach sshd.
func (s *sshd) command(program string, args ...string) *exec.Cmd {
	options := []string{"-F", "/dev/null", "-i", s.n.path("ssh/key"), "-o", "BatchMode=yes",
		"-o", "UserKnownHostsFile=" + s.n.path("ssh/known"), "-o", "Port=" + s.port, "-o", "SendEnv=PBS_JOBID"}
	return exec.Command(program, append(options, args...)...)
}

// login runs a command line as a user by ssh.
func (s *sshd) login(user, line string) result {
	s.n.t.Helper()
	return s.n.finish(s.command("ssh", user+"@127.0.0.1", line))
}
