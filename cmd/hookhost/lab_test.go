package main_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// A laboratory is a few hosts on this machine, each with an sshd and a hookhost of its own. A host
// is a set of namespaces: network; uts, for its name; mount, for users and /run of its own. MPI
// takes whoever shares memory with it for the same host: so ipc is one as well. A pid namespace
// lets its daemon see its own processes alone and all of them end with the first. The cgroup tree
// is this machine's; each host has a prefix in it.
type lab struct {
	t     *testing.T
	dir   string
	hub   *labHost // the switch
	hosts []*labHost
	gates int // files that programs have waited for
}

type labHost struct {
	lab   *lab
	name  string
	node  *node     // its part of the cgroup tree
	first *exec.Cmd // its first process
	stdin io.Closer // which lives as long as this is open
	pid   int       // of the first process

	served int // daemons that were started
}

// labUser owns the laboratory's jobs; labOther is somebody else.
const (
	labUser, labUID   = "hhuser", 23456
	labOther, otherID = "hhother", 23457
)

// labPrograms are what a laboratory is made of, by what Debian calls their packages (scripts/need
// packages).
var labPrograms = map[string]string{
	"/usr/sbin/sshd": "openssh-server", "/usr/bin/ssh": "openssh-client", "/usr/bin/mpirun.openmpi": "openmpi-bin",
	"/usr/bin/mpicc.openmpi": "libopenmpi-dev",
	"/usr/bin/mpiexec.mpich": "mpich", "/usr/bin/mpicc.mpich": "libmpich-dev", "/usr/bin/nsenter": "util-linux",
	"/usr/bin/gcc": "gcc",
}

// firstProcess sets its host up and lives until its standard input ends, with this test or before.
// The process is a shell since a shell reaps.
const firstProcess = `set -e
D=$1 N=$2
mount --make-rprivate /
mount -t proc proc /proc
hostname $N
for f in passwd group hosts; do mount --bind $D/etc/$f /etc/$f; done
mount -t tmpfs -o mode=755 x /run
mkdir -m 755 /run/sshd
mount -t tmpfs -o mode=1777 x /dev/shm
echo ready
while read line; do :; done
`

// newLab makes a laboratory of n hosts, n1 and on. The text that configure returns for a host
// comes to its configuration.
func newLab(t *testing.T, n int, configure ...func(*labHost) string) *lab {
	t.Helper()
	if os.Getenv("HOOKHOST_TEST_BIN") != "" {
		kernfstest.Elsewhere(t, "MPI libraries and a compiler: this machine's kernel tests have them")
	}
	for program, pkg := range labPrograms {
		if exists(program) {
			continue
		}
		kernfstest.Skip(t, "needs %s: install %s", program, pkg)
	}
	first := newNode(t, labConfig("n1")) // before the folder: it knows whether we are root
	dir, err := os.MkdirTemp("", "hhlab")
	must.NoError(t, err)
	l := &lab{t: t, dir: dir}
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.NoError(t, os.Chmod(dir, 0o755), os.Chmod(built, 0o711))
	l.writeFiles(n)
	l.hub = l.start("switch", syscall.CLONE_NEWNET, `echo ready; while read line; do :; done`)
	l.hub.must("ip", "link", "add", "name", "sw", "type", "bridge")
	l.hub.must("ip", "link", "set", "sw", "up")
	for i := 1; i <= n; i++ {
		name := fmt.Sprintf("n%d", i)
		node := first
		if i > 1 {
			node = newNode(t, labConfig(name))
		}
		h := l.start(name, syscall.CLONE_NEWNET|syscall.CLONE_NEWUTS|syscall.CLONE_NEWIPC|syscall.CLONE_NEWNS|
			syscall.CLONE_NEWPID, firstProcess)
		h.node = node
		must.NoError(t, os.Chmod(node.dir, 0o711))
		l.hosts = append(l.hosts, h)
		h.connect(i)
		for _, text := range configure {
			h.configure(text(h))
		}
		h.serve()
	}
	for _, h := range l.hosts {
		must.Eventually(t, h.name+" answers by ssh",
			func() bool { return l.hosts[0].as(labUser, "ssh", h.name, "true").Run() == nil })
	}
	return l
}

func labConfig(name string) string {
	return "systemd = \"off\"\n[host]\nnode = \"" + name + "\"\n[devices]\nenabled = false\n[cpuset]\nenabled = false\n"
}

// writeFiles makes users, host names and keys.
func (l *lab) writeFiles(n int) {
	home := l.path("home")
	must.NoError(l.t, os.MkdirAll(l.path("etc"), 0o755), os.MkdirAll(filepath.Join(home, ".ssh"), 0o755))
	add := func(file string, lines ...string) {
		b, err := os.ReadFile("/etc/" + file)
		must.NoError(l.t, err, os.WriteFile(l.path("etc/"+file), []byte(string(b)+strings.Join(lines, "\n")+"\n"),
			0o644))
	}
	add("passwd", fmt.Sprintf("%s:*:%d:%d::%s:/bin/bash", labUser, labUID, labUID, home),
		fmt.Sprintf("%s:*:%d:%d::%s:/bin/sh", labOther, otherID, otherID, home))
	add("group", fmt.Sprintf("%s:x:%d:", labUser, labUID), fmt.Sprintf("%s:x:%d:", labOther, otherID))
	hosts := "127.0.0.1 localhost\n"
	known := ""
	for _, key := range []string{l.path("etc/hostkey"), filepath.Join(home, ".ssh/id_ed25519")} {
		l.do(exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "laboratory", "-f", key))
	}
	public, err := os.ReadFile(l.path("etc/hostkey.pub"))
	must.NoError(l.t, err)
	for i := 1; i <= n; i++ {
		hosts += fmt.Sprintf("10.211.0.%d n%d\n", i, i)
		known += fmt.Sprintf("n%d,10.211.0.%d %s", i, i, public)
	}
	own, err := os.ReadFile(filepath.Join(home, ".ssh/id_ed25519.pub"))
	must.NoError(l.t, err,
		os.WriteFile(l.path("etc/hosts"), []byte(hosts), 0o644),
		os.WriteFile(filepath.Join(home, ".ssh/known_hosts"), []byte(known), 0o644),
		os.WriteFile(filepath.Join(home, ".ssh/authorized_keys"), own, 0o644),
		filepath.WalkDir(home, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Chown(path, labUID, labUID)
		}))
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, name) }

func (l *lab) do(cmd *exec.Cmd) {
	l.t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("%q: %v\n%s", cmd.Args, err, out)
	}
}

// start starts a host's first process in namespaces of its own.
func (l *lab) start(name string, namespaces uintptr, script string) *labHost {
	l.t.Helper()
	h := &labHost{lab: l, name: name}
	h.first = exec.Command("/bin/bash", "-c", script, "bash", l.dir, name)
	h.first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true}
	var said bytes.Buffer
	h.first.Stderr = &said
	stdin, err := h.first.StdinPipe()
	must.NoError(l.t, err)
	stdout, err := h.first.StdoutPipe()
	must.NoError(l.t, err, h.first.Start())
	h.stdin, h.pid = stdin, h.first.Process.Pid
	l.t.Cleanup(h.kill)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		h.kill()
		l.t.Fatalf("host %s: %q, %v\n%s", name, line, err, said.Bytes())
	}
	return h
}

// kill ends everything on the host at once.
func (h *labHost) kill() {
	if h.pid == 0 {
		return
	}
	h.stdin.Close()
	h.first.Process.Kill()
	h.first.Wait()
	h.pid = 0
}

// connect gives the host an interface on the switch, and an sshd.
func (h *labHost) connect(i int) {
	h.lab.t.Helper()
	port := fmt.Sprintf("p%d", i)
	h.lab.hub.must("ip", "link", "add", "name", port, "type", "veth", "peer", "name", "eth0", "netns",
		strconv.Itoa(h.pid))
	h.lab.hub.must("ip", "link", "set", port, "master", "sw", "up")
	h.must("ip", "addr", "add", fmt.Sprintf("10.211.0.%d/24", i), "dev", "eth0")
	h.must("ip", "link", "set", "eth0", "up")
	h.must("ip", "link", "set", "lo", "up")
	config := h.lab.path(h.name + ".sshd")
	must.NoError(h.lab.t, os.WriteFile(config, fmt.Appendf(nil, `ListenAddress 10.211.0.%d
HostKey %s
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
AuthorizedKeysFile %s
SetEnv HOOKHOST_SOCKET=%s
MaxStartups 1000
`, i, h.lab.path("etc/hostkey"), h.lab.path("home/.ssh/authorized_keys"), h.node.path("run/s")), 0o644))
	h.background("sshd", "/usr/sbin/sshd", "-D", "-e", "-f", config)
}

// configure adds to the configuration of the host's hookhost.
func (h *labHost) configure(text string) {
	file, err := os.OpenFile(h.node.path("hookhost.toml"), os.O_WRONLY|os.O_APPEND, 0)
	must.NoError(h.lab.t, err)
	_, err = file.WriteString(text)
	must.NoError(h.lab.t, err, file.Close())
}

// serve starts the host's daemon, for the first time or again, and waits until it answers.
func (h *labHost) serve() {
	h.lab.t.Helper()
	h.served++
	h.background(fmt.Sprintf("hookhost-%d", h.served), append([]string{"env"}, h.hookhost("serve")...)...)
	must.Eventually(h.lab.t, h.name+"'s daemon answers",
		func() bool { return h.in(h.hookhost("jobs")...).Run() == nil })
}

// hookhost is a hookhost command line of this host.
func (h *labHost) hookhost(args ...string) []string {
	return append([]string{filepath.Join(built, "hookhost"), args[0], "--config", h.node.path("hookhost.toml"),
		"--state", h.node.path("state"),
		"--socket", h.node.path("run/s")}, args[1:]...)
}

// report is a command line of this host that shows reports, in ASCII. Option --state of it is none
// for a directory.
func (h *labHost) report(args ...string) *exec.Cmd {
	return h.in(append([]string{"env", "LC_ALL=C", "HOOKHOST_CONFIG=" + h.node.path("hookhost.toml"),
		"HOOKHOST_STATE=" + h.node.path("state"), "HOOKHOST_SOCKET=" + h.node.path("run/s"),
		filepath.Join(built, "hookhost"), "report"}, args...)...)
}

// in is a command of root's on the host, in a session of its own. The session of this test would
// be beyond the host's sight.
func (h *labHost) in(args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(h.pid), "--net"}
	if h != h.lab.hub {
		enter = append(enter, "--uts", "--ipc", "--mount", "--pid")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	h.lab.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "nsenter", append(append(enter, "--", "setsid"), args...)...)
	cmd.Dir = "/"
	cmd.WaitDelay = 10 * time.Second
	if h == h.lab.hub { // its setsid would fork, and not wait
		return cmd
	}
	return apart(cmd)
}

// as is a command of a user's on the host, who has logged in, as it were.
func (h *labHost) as(user string, args ...string) *exec.Cmd {
	id := strconv.Itoa(map[string]int{labUser: labUID, labOther: otherID}[user])
	return h.in(append([]string{"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "env", "-i",
		"PATH=/usr/bin:/bin", "HOME=" + h.lab.path("home"),
		"USER=" + user, "LOGNAME=" + user, "SHELL=/bin/bash", "HOOKHOST_SOCKET=" + h.node.path("run/s"),
		"HOOKHOST_CONFIG=/nonexistent"}, args...)...)
}

func (h *labHost) must(args ...string) {
	h.lab.t.Helper()
	h.lab.do(h.in(args...))
}

// background starts a command that lives as long as the host, with a log that is shown when the
// test fails.
func (h *labHost) background(name string, args ...string) {
	h.lab.t.Helper()
	path := h.lab.path(h.name + "." + name + ".log")
	log, err := os.Create(path)
	must.NoError(h.lab.t, err)
	enter := h.in(args...)
	cmd := exec.Command(enter.Path, enter.Args[1:]...) // without a limit of time
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	must.NoError(h.lab.t, cmd.Start(), log.Close())
	h.lab.t.Cleanup(func() {
		h.kill()
		cmd.Wait()
		if b, _ := os.ReadFile(path); h.lab.t.Failed() {
			h.lab.t.Logf("%s of %s:\n%s", name, h.name, b)
		}
	})
}

// run runs a command to its end.
func (h *labHost) run(t testing.TB, cmd *exec.Cmd) result {
	t.Helper()
	h.node.t = t
	return h.node.finish(cmd)
}
