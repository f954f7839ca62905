package main_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// shellScript is what a remote shell comes down to, without another host. The words after HOST are
// joined for the login shell, which sshd starts with no signal ignored.
const shellScript = `#!/bin/sh
shift
exec env -i --default-signal PATH="$PATH" HOME=/ SHELL="$LOGIN" HOOKHOST_SOCKET="$THERE" "$LOGIN" -c "$*"
`

// remshJob is a job of user nobody on a node with a daemon, and a remote shell that leads to it.
type remshJob struct {
	n     *node
	id    string
	shell string
}

func newRemshJob(t *testing.T) *remshJob {
	t.Helper()
	n := newNode(t)
	n.open()
	n.serve()
	j := &remshJob{n: n, id: "9.node", shell: n.path("rsh")}
	must.NoError(t, os.WriteFile(j.shell, []byte(shellScript), 0o755))
	if r := n.event("execjob_begin", j.id, ""); r.status != 0 {
		t.Fatal("begin was rejected")
	}
	t.Cleanup(func() { n.t = t; n.event("execjob_end", j.id, "") })
	return j
}

// command is a call of remsh by the job's owner; env is added to what it has of its job.
func (j *remshJob) command(login string, env []string, args ...string) *exec.Cmd {
	cmd := j.n.command(append([]string{"remsh"}, args...)...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "PBS_RSHCOMMAND=" + j.shell, "LOGIN=" + login, "THERE=" +
		j.n.path("run/s"), "PBS_JOBID=" + j.id,
		"HOOKHOST_SOCKET=/nonexistent", "HOOKHOST_CONFIG=/nonexistent"}, env...)
	cmd.SysProcAttr = sessionOf(ownerUID)
	return cmd
}

// remsh runs a line over there.
func (j *remshJob) remsh(t *testing.T, stdin io.Reader, line string) result {
	t.Helper()
	j.n.t = t
	cmd := j.command("/bin/sh", nil, "n2", line)
	cmd.Stdin = stdin
	return j.n.finish(cmd)
}

func TestRemshRunsTheCommandInTheJob(t *testing.T) {
	j := newRemshJob(t)

	// The job's processes may all get a signal; ssh is one of them, and is not to end what has yet
	// to save its work.
	t.Run("the remote shell ignores what is passed on", func(t *testing.T) {
		shell := j.n.path("ignores")
		must.NoError(t, os.WriteFile(shell, []byte("#!/bin/sh\ngrep SigIgn: /proc/self/status\n"), 0o755))
		j.n.t = t
		r := j.n.finish(j.command("/bin/sh", []string{"PBS_RSHCOMMAND=" + shell}, "n2", "true"))
		var mask uint64
		if _, err := fmt.Sscanf(r.stdout, "SigIgn:\t%x", &mask); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
			syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGXCPU, 40} {
			if mask>>(sig-1)&1 == 0 {
				t.Errorf("signal %d is not ignored: %s", sig, r.stdout)
			}
		}
	})

	t.Run("a command reaches the shell as it was written", func(t *testing.T) {
		lines := []string{
			`echo a  b`, `echo 'a  b' "c  d"`, `printf '%s|' "$HOME" '$HOME' \$HOME`, "echo one\necho two; exit 5",
			`echo '!x' !y`, `echo "$((1+2))" $(echo x)`,
			"printf '%s\\n' 'tab\there' `echo back`", `echo \\ \" \'`, `test -n "" && echo no || echo yes`,
			"echo '\xff\xfe'", `echo ~ * ?[a-z] {a,b}`,
			"# nothing", `cat <<'X'` + "\n$a `b`\nX\n", `false`,
		}
		for _, login := range []string{"/bin/sh", "/bin/bash", "/bin/csh", "/bin/tcsh", "/usr/bin/fish"} {
			if !exists(login) {
				continue
			}
			for _, line := range lines {
				plain := exec.Command(login, "-c", line)
				plain.Dir, plain.Env = "/", []string{"PATH=/usr/bin:/bin", "HOME=/", "SHELL=" + login}
				want, err := plain.Output()
				if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) {
					t.Fatal(err)
				}
				cmd := j.command(login, nil, "n2", line)
				got, _ := cmd.Output()
				if !bytes.Equal(got, want) || cmd.ProcessState.ExitCode() != plain.ProcessState.ExitCode() {
					t.Errorf("%s: %q: %q, status %d; want %q, %d", login, line, got, cmd.ProcessState.ExitCode(), want,
						plain.ProcessState.ExitCode())
				}
			}
		}
	})
	t.Run("one of 200 KiB too", func(t *testing.T) {
		words := []string{"n2", "-n", "printf", "%s"}
		for range 20 {
			words = append(words, strings.Repeat("x", 10<<10))
		}
		cmd := j.command("/bin/sh", nil, append(words, "| wc -c; exit 6")...)
		out, _ := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); got != fmt.Sprint(20*10<<10) || cmd.ProcessState.ExitCode() != 6 {
			t.Errorf("%.200q, status %d", got, cmd.ProcessState.ExitCode())
		}
	})
	t.Run("it is in the job, with the job's variables", func(t *testing.T) {
		j.n.t = t
		cmd := j.command("/bin/sh",
			[]string{"PBS_JOBNAME=a b", "PBS_JOBCOOKIE=secret", "PBS_TASKNUM=1", "OMPI_MCA_plm_rsh_agent=/x"}, "n2",
			`cat /proc/self/cgroup; echo "$PBS_JOBID|$PBS_JOBNAME|$PBS_JOBCOOKIE|$PBS_TASKNUM|$OMPI_MCA_plm_rsh_agent|$(ps -o sid= $$ | tr -d ' ')|$$"`)
		r := j.n.finish(cmd)
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		f := strings.Split(lines[len(lines)-1], "|")
		if r.status != 0 || path.Base(cgroupOf(r.stdout, "memory")) != j.id {
			t.Errorf("status %d, %q", r.status, r.stdout)
		}
		if got := strings.Join(f[:5], "|"); got != j.id+"|a b|||/x" {
			t.Errorf("variables %q", got)
		}
		if len(f) != 7 || f[5] != f[6] {
			t.Errorf("not in a session of its own: %q", f)
		}
	})
	t.Run("standard input and output pass through", func(t *testing.T) {
		text := bytes.Repeat([]byte("0123456789abcde\n"), 100_000)
		r := j.remsh(t, bytes.NewReader(text), "sha256sum")
		if want := fmt.Sprintf("%x", sha256.Sum256(text)); r.status != 0 || !strings.HasPrefix(r.stdout, want) {
			t.Errorf("status %d, %q, want %s", r.status, r.stdout, want)
		}
		cmd := j.command("/bin/sh", nil, "n2", "-n", "cat; echo end; echo error >&2")
		cmd.Stdin = strings.NewReader("unseen")
		if r := j.n.finish(cmd); r.stdout != "end\n" || r.stderr != "error\n" {
			t.Errorf("-n: %q, %q", r.stdout, r.stderr)
		}
		if r := j.remsh(t, bytes.NewReader(text), "head -c 5"); r.status != 0 || r.stdout != "01234" {
			t.Errorf("a command that closes its input: status %d, %q", r.status, r.stdout)
		}
	})
	t.Run("exit status", func(t *testing.T) {
		for line, want := range map[string]int{"exit 0": 0, "exit 7": 7, "exit 255": 255, "kill -SEGV $$": 139,
			"kill -KILL $$": 137, "/nonexistent": 127} {
			if r := j.remsh(t, nil, line); r.status != want {
				t.Errorf("%s: status %d, want %d", line, r.status, want)
			}
		}
	})
	t.Run("signals pass through, whatever stands in the stream", func(t *testing.T) {
		cmd := j.command("/bin/sh", nil, "n2",
			`trap 'echo one' USR1; trap 'echo two; exit 3' TERM; echo ready; while :; do sleep 0.1; done`)
		endless, feed, err := os.Pipe()
		must.NoError(t, err)
		defer feed.Close()
		cmd.Stdin = endless
		out, err := cmd.StdoutPipe()
		must.NoError(t, err)
		must.NoError(t, cmd.Start())
		endless.Close()
		lines := newLines(out)
		lines.want(t, "ready")
		feed.Write(bytes.Repeat([]byte("x"), 300<<10)) // more than a pipe holds, which nobody reads
		cmd.Process.Signal(syscall.SIGUSR1)
		lines.want(t, "one")
		cmd.Process.Signal(syscall.SIGTERM)
		lines.want(t, "two")
		cmd.Wait()
		if status := cmd.ProcessState.ExitCode(); status != 3 {
			t.Errorf("status %d, want the trap's 3", status)
		}
	})
	t.Run("nothing is left when the caller is killed", func(t *testing.T) {
		cmd := j.command("/bin/sh", nil, "n2", `echo $$; exec sleep 12345`)
		out, err := cmd.StdoutPipe()
		must.NoError(t, err)
		must.NoError(t, cmd.Start())
		pid := newLines(out).next(t)
		cmd.Process.Kill()
		cmd.Wait()
		must.Eventually(t, "the command is gone", func() bool { return !exists("/proc/" + pid) })
	})
	t.Run("a command that the job does not take in is not run", func(t *testing.T) {
		j.n.t = t
		for job, want := range map[string]string{"8.node": "tm_attach: TM_ENOTFOUND: ", "": ""} {
			cmd := j.command("/bin/sh", []string{"PBS_JOBID=" + job}, "n2", "echo ran")
			r := j.n.finish(cmd)
			if job == "" { // the only one of its user
				if r.status != 0 || r.stdout != "ran\n" {
					t.Errorf("without a job: %+v", r)
				}
				continue
			}
			if r.status != 255 || r.stdout != "" || !strings.Contains(r.stderr, want) ||
				strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "hookhost: remsh ") {
				t.Errorf("job %q: %+v", job, r)
			}
		}
		cmd := j.command("/bin/sh", []string{"THERE=/nonexistent/s"}, "n2", "echo ran")
		if r := j.n.finish(cmd); r.status != 255 || r.stdout != "" || !strings.Contains(r.stderr, "TM_ESYSTEM") {
			t.Errorf("without a daemon: %+v", r)
		}
		cmd = j.command("/bin/sh", nil, "n2", "echo ran")
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: strangerUID, Gid: strangerUID}
		if r := j.n.finish(cmd); r.status != 255 || r.stdout != "" || !strings.Contains(r.stderr, "tm_attach: TM_") {
			t.Errorf("a stranger: %+v", r)
		}
	})
	t.Run("a remote shell that fails", func(t *testing.T) {
		j.n.t = t
		for _, rsh := range []string{"/bin/false", "/nonexistent/rsh"} {
			cmd := j.command("/bin/sh", []string{"PBS_RSHCOMMAND=" + rsh}, "n2", "echo ran")
			want := map[string]int{"/bin/false": 1, "/nonexistent/rsh": 255}[rsh]
			if r := j.n.finish(cmd); r.status != want || r.stdout != "" {
				t.Errorf("%s: %+v", rsh, r)
			}
		}
	})
	t.Run("by PBS's names", func(t *testing.T) {
		j.n.t = t
		nodefile := j.n.path("nodefile")
		must.NoError(t, os.WriteFile(nodefile, []byte("n1.site\nn2.site\n"), 0o644))
		for _, tt := range []struct {
			name, host, user string
			status           int
			stderr           string
		}{
			{"pbs_tmrsh", "n2", "nobody", 0, ""},
			{"pbs_tmrsh", "n3", "nobody", 255, "pbs_tmrsh: host \"n3\" is not a node in job <9.node>\n"},
			{"pbs_remsh", "n3", "nobody", 0, ""}, {"pbs_remsh", "n3", "root", 255, "pbs_remsh: bad user \"root\"\n"},
		} {
			link := filepath.Join(j.n.dir, tt.name)
			if !exists(link) {
				must.NoError(t, os.Symlink(filepath.Join(built, "hookhost"), link))
			}
			cmd := j.command("/bin/sh", []string{"PBS_NODEFILE=" + nodefile})
			cmd.Path, cmd.Args = link, []string{link, tt.host, "-l", tt.user, "true"}
			cmd.Env = append(cmd.Env, "PBS_RSHCOMMAND="+j.n.path("rsh-l"))
			must.NoError(t, os.WriteFile(j.n.path("rsh-l"),
				[]byte(strings.Replace(shellScript, "shift\n", "shift 3\n", 1)), 0o755))
			if r := j.n.finish(cmd); r.status != tt.status || r.stderr != tt.stderr {
				t.Errorf("%+v: %+v", tt, r)
			}
		}
	})
}

// lines are what a program says, with a bound on how long one may take.
type lines struct{ c chan string }

func newLines(r io.Reader) *lines {
	l := &lines{make(chan string, 64)}
	go func() {
		var b [1]byte
		var line []byte
		for {
			if n, err := r.Read(b[:]); n == 0 || err != nil {
				close(l.c)
				return
			}
			if b[0] != '\n' {
				line = append(line, b[0])
				continue
			}
			l.c <- string(line)
			line = nil
		}
	}()
	return l
}

func (l *lines) next(t testing.TB) string {
	t.Helper()
	select {
	case line, ok := <-l.c:
		if !ok {
			t.Fatal("no more lines")
		}
		return line
	case <-time.After(2 * time.Minute):
		t.Fatal("no line in time")
	}
	return ""
}

func (l *lines) want(t testing.TB, line string) {
	t.Helper()
	if got := l.next(t); got != line {
		t.Fatalf("%q, want %q", got, line)
	}
}
