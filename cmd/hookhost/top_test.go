package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// terminal is a tmux of its own with one window.
type terminal struct {
	n      *node
	socket string
	raw    string // the file with all that the window's program writes
}

// newTerminal starts a shell in a terminal of some size.
func newTerminal(n *node, width, height int) *terminal {
	n.t.Helper()
	if os.Getenv("HOOKHOST_TEST_BIN") != "" {
		kernfstest.Elsewhere(n.t, "tmux: this machine's kernel tests have it")
	}
	if _, err := exec.LookPath("tmux"); err != nil {
		kernfstest.Skip(n.t, "needs tmux: install it")
	}
	term := &terminal{n: n, socket: n.path("tmux"), raw: n.path("raw")}
	term.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height),
		"env", "PS1=$ ", "sh")
	n.t.Cleanup(func() { exec.Command("tmux", "-S", term.socket, "kill-server").Run() })
	term.tmux("pipe-pane", "-O", "cat > "+term.raw)
	return term
}

func (term *terminal) tmux(args ...string) string {
	term.n.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", term.socket}, args...)...)
	cmd.Env = append(term.n.env(), "LC_ALL=C.UTF-8", "TERM=xterm-256color")
	out, err := cmd.CombinedOutput()
	if err != nil {
		term.n.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (term *terminal) keys(keys ...string) { term.tmux(append([]string{"send-keys"}, keys...)...) }

// shows waits until all texts are on the screen, and returns the screen.
func (term *terminal) shows(texts ...string) (screen string) {
	term.n.t.Helper()
	term.n.t.Cleanup(func() {
		if term.n.t.Failed() {
			term.n.t.Logf("the terminal when %q was waited for:\n%s", texts, screen)
		}
	})
	must.Eventually(term.n.t, fmt.Sprintf("the terminal shows %q", texts), func() bool {
		screen = term.tmux("capture-pane", "-p")
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
	return screen
}

// A person watches a job that burns cpu time, at two sizes of the terminal, while the daemon goes
// and comes back. Names that the job's user chose do not drive the terminal.
func TestTopFollowsAJobOnATerminal(t *testing.T) {
	n := newNode(t)
	daemon := n.serve()
	evil := n.path("\x1b]0;evil\a")
	sh, err := filepath.EvalSymlinks("/bin/sh")
	must.NoError(t, err)
	program, err := os.ReadFile(sh)
	must.NoError(t, err, os.WriteFile(evil, program, 0o755))
	run := n.command("run", "-l", "select=1:ncpus=1:mem=256mb", "-l", "walltime=01:00:00", "-N", "\x1b[2Jname", "--",
		evil, "-c", "while :; do :; done")
	must.NoError(t, run.Start())
	defer func() {
		run.Process.Kill()
		run.Wait()
		must.Eventually(t, "the job is over", func() bool { return len(n.jobDirs()) == 0 })
	}()

	once := ""
	must.Eventually(t, "one frame has the job", func() bool {
		once = n.hookhost("top", "--once").stdout
		return strings.Contains(once, "?[2Jname") && strings.Contains(once, "/256M")
	})
	if strings.Contains(once, "\x1b") {
		t.Errorf("escapes in %q", once)
	}
	if r := n.hookhost("top"); r.status != 2 || !strings.Contains(r.stderr, "--once") {
		t.Errorf("without a terminal: %+v", r)
	}

	term := newTerminal(n, 80, 24)
	term.keys(filepath.Join(built, "hookhost")+" top --interval 500ms", "Enter")
	screen := term.shows("1 job", "cpus busy", "59m", "/256M", "NAME", "MEM%", "q quit")
	if strings.Contains(screen, "STATE") {
		t.Errorf("at 80 columns:\n%s", screen)
	}
	t.Log(screen)
	term.keys("Enter")
	term.shows("COMMAND", "?]0;evil?", "1 process")
	term.keys("q")
	term.shows("enter processes")
	term.keys("/", "nobody", "Enter")
	term.shows("0 of 1 job")
	term.keys("Escape")
	term.tmux("resize-window", "-x", "200", "-y", "50")
	t.Log(term.shows("STATE", "running", "?[2Jname"))

	daemon.stop()
	term.shows("not reachable", "/256M")
	n.serve()
	must.Eventually(t, "the daemon is seen again", func() bool {
		return !strings.Contains(term.tmux("capture-pane", "-p"), "not reachable")
	})
	term.shows("1 job", "/256M")
	term.keys("q")
	term.shows("$ ")

	raw, err := os.ReadFile(term.raw)
	must.NoError(t, err)
	if len(raw) == 0 || strings.Contains(string(raw), "]0;evil\a") || strings.Contains(string(raw), "\x1b[2Jname") {
		t.Errorf("the terminal got %q", raw)
	}
}
