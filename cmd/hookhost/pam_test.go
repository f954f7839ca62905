package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

const pamOn = "[pam]\nrestrict = true\nadopt = \"newest\"\nallow = [\"operator\"]\n"

// whereAmI prints the job of the session's environment, and processes of the session. These are the
// shell, its parent, and root's sshd.
const whereAmI = `echo "$PBS_JOBID,$$,$PPID,$(cut -d" " -f4 /proc/$PPID/stat)"`

// session logs in and returns the job of the environment. All its processes have to be in the job,
// sshd's own included, or outside of all jobs if it is "".
func (s *sshd) session(t *testing.T, user, job string) {
	t.Helper()
	cmd := s.command("ssh", user+"@127.0.0.1", whereAmI+"; read x")
	in, err := cmd.StdinPipe()
	must.NoError(t, err)
	out, err := cmd.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, cmd.Start())
	defer cmd.Wait()
	defer in.Close()
	b := make([]byte, 200)
	n, err := out.Read(b)
	must.NoError(t, err)
	words := strings.Split(strings.TrimSpace(string(b[:n])), ",")
	if len(words) != 4 || words[0] != job {
		t.Fatalf("%q, want the environment of job %q", words, job)
	}
	for _, word := range words[1:] {
		pid, err := strconv.Atoi(word)
		must.NoError(t, err)
		if inJob(t, pid, job) != (job != "") {
			t.Errorf("process %d in job %q: %t", pid, job, job == "")
		}
	}
}

func (s *sshd) refused(t *testing.T, user, text string) {
	t.Helper()
	if r := s.login(user, "true"); r.status != 255 || !strings.Contains(r.stderr, text) || r.stdout != "" {
		t.Errorf("login of %s: %+v, want %q", user, r, text)
	}
}

func (n *node) begin(t *testing.T, job string) {
	t.Helper()
	if r := n.event("execjob_begin", job, ""); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	t.Cleanup(func() { n.event("execjob_end", job, "") })
}

// Only who has a job logs in, and the session is part of that job until the job ends.
func TestLoginIsPartOfTheUsersJob(t *testing.T) {
	n := newNode(t, pamOn)
	s := newSSHD(n)
	n.serve()
	s.refused(t, "nobody", "No login: nobody has no job on ")
	n.begin(t, "7.x")
	s.refused(t, "stranger", "No login: stranger has no job on ")
	s.session(t, "nobody", "7.x")
	if r := s.login("nobody", "echo $PBS_JOB_MEM $PBS_JOB_NCPUS"); r.stdout != "67108864 1\n" {
		t.Errorf("what the job got: %+v", r)
	}

	// scp and sftp, a terminal, an agent and a second channel of a connection are no different.
	must.NoError(t, os.WriteFile(n.path("home/file"), []byte("text"), 0o644))
	scp := s.command("scp", "nobody@127.0.0.1:file", n.path("copy"))
	if r := n.finish(scp); r.status != 0 || !exists(n.path("copy")) {
		t.Errorf("scp: %+v", r)
	}
	sftp := s.command("sftp", "nobody@127.0.0.1")
	sftp.Stdin = strings.NewReader("get file " + n.path("second"))
	if r := n.finish(sftp); r.status != 0 || !exists(n.path("second")) {
		t.Errorf("sftp: %+v", r)
	}
	terminal := s.command("ssh", "-tt", "nobody@127.0.0.1")
	terminal.Stdin = strings.NewReader("tty; cat /proc/self/cgroup; exit\n")
	if r := n.finish(terminal); !strings.Contains(r.stdout, "This session is part of your job 7.x and ends with it.") ||
		!strings.Contains(r.stdout, "/dev/pts/") || !strings.Contains(r.stdout, "/7.x") {
		t.Errorf("a terminal: %+v", r)
	}
	agent := exec.Command("ssh-agent", append([]string{"sh", "-c", `ssh-add -q "$0" && exec "$@"`, n.path("ssh/key")},
		s.command("ssh", "-A", "nobody@127.0.0.1", "ssh-add -l").Args...)...)
	if r := n.finish(agent); r.status != 0 || !strings.Contains(r.stdout, "ED25519") {
		t.Errorf("an agent: %+v", r)
	}
	socket := "ControlPath=" + n.path("master")
	must.NoError(t, s.command("ssh", "-o", socket, "-M", "-N", "-f", "nobody@127.0.0.1").Run())
	if r := n.finish(s.command("ssh", "-o", socket, "nobody@127.0.0.1", "cat /proc/self/cgroup")); !strings.Contains(
		r.stdout, "/7.x") {
		t.Errorf("a second channel: %+v", r)
	}
	must.NoError(t, s.command("ssh", "-o", socket, "-O", "exit", "nobody@127.0.0.1").Run())

	n.begin(t, "8.x")
	s.session(t, "nobody", "8.x")

	session := s.command("ssh", "nobody@127.0.0.1", "echo here; exec sleep 1000")
	out, err := session.StdoutPipe()
	must.NoError(t, err, session.Start())
	out.Read(make([]byte, 10))
	n.event("execjob_end", "8.x", "")
	if err := session.Wait(); err == nil {
		t.Error("the session outlives its job")
	}
	s.session(t, "nobody", "7.x")
	if exists(n.path("run/pam.env")) {
		t.Error("the file of variables is left")
	}
	loaded, err := filepath.Glob(n.path("home/loaded.*"))
	must.NoError(t, err)
	for _, file := range loaded { // by the dynamic linker, in the programs of a session
		if info, err := os.Stat(file); err != nil || info.Sys().(*syscall.Stat_t).Uid == 0 {
			t.Errorf("a program of root's has the user's variables: %s, %v", file, err)
		}
	}
	if len(loaded) == 0 {
		t.Error("~/.pam_environment has no effect")
	}
}

// Who is let in and what a session is part of are two settings, each of which has an effect alone.
func TestEachSettingOfLoginsAlone(t *testing.T) {
	must.BesideOthers(t)
	for _, tt := range []struct {
		settings, session string
		stranger          bool // is let in
	}{
		{"[pam]\nrestrict = true\n", "", false},
		{"[pam]\nadopt = \"deny\"\n", "7.x", true},
	} {
		n := newNode(t, tt.settings)
		s := newSSHD(n)
		n.serve()
		n.begin(t, "7.x")
		s.session(t, "nobody", tt.session)
		if tt.stranger {
			s.session(t, "stranger", "")
		} else {
			s.refused(t, "stranger", "No login: stranger has no job on ")
		}
	}
}

// What a user can put into PAM's environment names no file or socket.
func TestPAMIgnoresPathsInTheEnvironment(t *testing.T) {
	n := newNode(t, pamOn)
	run := func(args ...string) result {
		cmd := n.alone(args...) // with HOOKHOST_CONFIG and HOOKHOST_SOCKET
		cmd.Env = append(cmd.Env, "PAM_USER=root", "PAM_USER=nobody")
		return n.finish(cmd)
	}
	if r := run("pam", "account", "--config", n.path("hookhost.toml")); r.status != 1 ||
		!strings.Contains(r.stdout, "/run/hookhost/hookhost.sock") {
		t.Errorf("the configuration is named: %+v", r)
	}
	if exists("/etc/hookhost/hookhost.toml") {
		return
	}
	if r := run("pam", "account"); r.status != 0 || r.stdout != "" {
		t.Errorf("the environment names the configuration: %+v", r)
	}
}

// A user who cannot be looked up is treated as if no daemon answered. Without restrictions, and for
// those in allow, nobody is looked up.
func TestLoginOfAnUnknownUser(t *testing.T) {
	must.BesideOthers(t)
	for _, tt := range []struct {
		settings, user string
		status         int
	}{
		{"", "no-such-user", 0},
		{pamOn, "no-such-user", 1},
		{pamOn + "unavailable = \"allow\"\n", "no-such-user", 0},
		{pamOn, "operator", 0},
		{pamOn, "root", 0},
	} {
		n := newNode(t, tt.settings)
		cmd := n.alone("pam", "account", "--config", n.path("hookhost.toml"), "--socket", n.path("run/s"))
		cmd.Env = append(cmd.Env, "PAM_USER="+tt.user)
		if r := n.finish(cmd); r.status != tt.status || strings.Contains(r.stdout, "unknown user") != (r.status != 0) {
			t.Errorf("%q, %s: %+v", tt.settings, tt.user, r)
		}
	}
}

// withoutID runs a command where id(1) fails.
const withoutID = `mount --bind /bin/false /usr/bin/id && exec "$@"`

// A user whose groups are not known may be in one of allow. A refusal says so, and the log.
func TestLoginOfAUserWithoutKnownGroups(t *testing.T) {
	must.BesideOthers(t)
	const cause = "o @group in allow counts: groups of user nobody: id: exit status 1"
	for unavailable, status := range map[string]int{"deny": 1, "allow": 0} {
		n := newNode(t, "[pam]\nrestrict = true\nallow = [\"@games\"]\nunavailable = \""+unavailable+"\"\n")
		daemon := n.serve()
		login := func() {
			t.Helper()
			pam := n.alone("pam", "account", "--config", n.path("hookhost.toml"), "--socket", n.path("run/s"))
			args := append([]string{"--mount", "sh", "-c", withoutID, "sh"}, pam.Args...)
			cmd := exec.Command("unshare", args...)
			cmd.Env = append(pam.Env, "PAM_USER=nobody")
			if r := n.finish(cmd); r.status != status || strings.Contains(r.stdout, cause) != (status != 0) {
				t.Errorf("%s: %+v", unavailable, r)
			}
		}
		login()
		if log := n.text(n.path("log")); !strings.Contains(log, cause) {
			t.Errorf("%s: the daemon's log: %s", unavailable, log)
		}
		daemon.kill()
		login()
	}
}

// While a job is suspended its session stands still, and nobody logs in to it.
func TestLoginToASuspendedJob(t *testing.T) {
	n := newNode(t, pamOn)
	s := newSSHD(n)
	n.serve()
	n.begin(t, "7.x")
	session := s.command("ssh", "nobody@127.0.0.1", "echo here; read x; echo there")
	in, err := session.StdinPipe()
	must.NoError(t, err)
	out, err := session.StdoutPipe()
	must.NoError(t, err, session.Start())
	text := make([]byte, 10)
	out.Read(text)
	must.Equal(t, "status", 0, n.event("execjob_postsuspend", "7.x", "").status)
	s.refused(t, "nobody", "nobody has only jobs that are suspended: 7.x.")
	fmt.Fprintln(in)
	must.Equal(t, "status", 0, n.event("execjob_preresume", "7.x", "").status)
	length, _ := out.Read(text)
	if err := session.Wait(); err != nil || string(text[:length]) != "there\n" {
		t.Errorf("%q, %v", text[:length], err)
	}
}

// Without a daemon the configuration decides. If that is invalid, nobody is locked out.
func TestLoginWithoutADaemon(t *testing.T) {
	must.BesideOthers(t)
	n := newNode(t, "[pam]\nrestrict = true\nadopt = \"newest\"\nallow = [\"@games\"]\n")
	s := newSSHD(n)
	daemon := n.serve()
	passwd := n.text(n.path("etc/passwd"))
	s.file("etc/passwd", strings.Replace(passwd, "stranger:x:65533:65533:", "stranger:x:65533:60:", 1))
	s.session(t, "stranger", "")

	// The daemon goes by the configuration in force.
	valid := n.text(n.path("hookhost.toml"))
	n.write("hookhost.toml", valid+"[pids]\nmax = \"x\"\n")
	s.refused(t, "nobody", "No login: nobody has no job on ")
	n.begin(t, "7.x")
	s.session(t, "nobody", "7.x")
	s.session(t, "stranger", "")

	must.NoError(t, daemon.cmd.Process.Signal(syscall.SIGSTOP))
	n.write("hookhost.toml", valid)
	s.refused(t, "nobody", "No login: hookhost does not answer, please tell your administrators: ")
	s.session(t, "stranger", "")
	must.NoError(t, daemon.cmd.Process.Signal(syscall.SIGCONT))
	s.session(t, "nobody", "7.x")
	daemon.kill()
	s.refused(t, "nobody", "no daemon runs")
	n.write("hookhost.toml", valid+"unavailable = \"allow\"\n")
	s.session(t, "nobody", "")
	n.write("hookhost.toml", valid+"unavailable = \"perhaps\"\n")
	s.session(t, "nobody", "")
	n.write("hookhost.toml", valid)
	n.serve()
	s.session(t, "nobody", "7.x")
}

// Of many logins at once each gets the variables of its own user's job, or none.
func TestManyLoginsAtOnce(t *testing.T) {
	n := newNode(t, pamOn)
	s := newSSHD(n)
	n.serve()
	jobs := map[string]string{"nobody": "7.x", "stranger": "8.x"}
	n.begin(t, jobs["nobody"])
	event := `{"job":{"id":"8.x","owner":{"user":"stranger","uid":65533,"gid":65533},"resource_list":{"ncpus":0}}}`
	if r := n.send("execjob_begin", event); r.status != 0 {
		t.Fatal(r)
	}
	defer n.send("execjob_end", event)
	var wait sync.WaitGroup
	for i := range enough(10) {
		wait.Go(func() {
			user := []string{"nobody", "stranger"}[i%2]
			out, err := s.command("ssh", user+"@127.0.0.1", `echo "$PBS_JOBID"`).Output()
			if got := strings.TrimSpace(string(out)); err != nil || got != "" && got != jobs[user] {
				t.Errorf("%s has the variables of job %q, %v", user, got, err)
			}
		})
	}
	wait.Wait()
}
