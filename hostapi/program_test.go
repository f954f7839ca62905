package hostapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	plugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

var programsDir string // for TestMain to remove

// programs builds the hooks of examples and testdata/hooks and returns their directory.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hookprograms")
	if err != nil {
		return "", err
	}
	programsDir = dir
	out, err := exec.Command("go", "build", "-o", dir, "./examples/deny", "../testdata/hooks/...").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build hooks: %w\n%s", err, out)
	}
	return dir, nil
})

func program(t *testing.T, name string) string {
	t.Helper()
	dir, err := programs()
	must.NoError(t, err)
	return filepath.Join(dir, name)
}

func misbehave(t *testing.T, mode string) *exec.Cmd {
	cmd := exec.Command(program(t, "misbehave"))
	cmd.Env = []string{"MISBEHAVE=" + mode}
	return cmd
}

func TestStartedByHand(t *testing.T) {
	deny := program(t, "deny")
	var stdout, stderr strings.Builder
	cmd := exec.Command(deny)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 2 {
		t.Errorf("got %v, want status 2", err)
	}
	if want := "hookhost hook import deny application/x-executable default " + deny +
		"\n"; !strings.HasSuffix(stderr.String(), want) {
		t.Errorf("stderr %q", &stderr)
	}
	if stdout.Len() > 0 {
		t.Errorf("stdout %q", &stdout)
	}
}

func TestDescribeNamesProgramAndEvents(t *testing.T) {
	tests := []struct {
		program, mode string
		want          hostapi.Description
	}{
		{"deny", "", hostapi.Description{Program: "deny", Protocol: 1, Events: []hostapi.Event{hostapi.EventBegin}}},
		{"misbehave", "", hostapi.Description{Program: "misbehave", Protocol: 1, Events: hostapi.Events()}},
		{"misbehave", "no-events", hostapi.Description{
			Program: "misbehave", Protocol: 1,
			Error: "hook struct {}: handles no event: it has no method such as ExecjobBegin(context.Context, " +
				"*hostapi.Request) (*hostapi.Outcome, error)",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.program+tt.mode, func(t *testing.T) {
			cmd := exec.Command(program(t, tt.program), "--describe")
			cmd.Env = append(os.Environ(), "MISBEHAVE="+tt.mode)
			out, err := cmd.Output()
			must.NoError(t, err)
			var got hostapi.Description
			if err := json.Unmarshal(out, &got); err != nil || strings.Count(string(out), "\n") != 1 {
				t.Fatalf("%q: %v", out, err)
			}
			must.Equal(t, "", tt.want, got)
		})
	}
}

func TestBadStarts(t *testing.T) {
	for mode, want := range map[string]string{
		"print-early":   "hello from misbehave",
		"wrong-version": "99",
		"exit-at-start": "exited before we could connect|Failed to read any lines",
	} {
		t.Run(mode, func(t *testing.T) {
			err := newProcess(t, misbehave(t, mode)).start()
			if err == nil {
				t.Fatal("it started")
			}
			for text := range strings.SplitSeq(want, "|") {
				if strings.Contains(err.Error(), text) {
					return
				}
			}
			t.Errorf("got %v, want one with %s", err, want)
		})
	}
}

func TestOutcomeThatIsNoneIsRefused(t *testing.T) {
	p, err := configure(t, newProcess(t, misbehave(t, "nonsense")), hostapi.SetupData{})
	must.NoError(t, err)
	out, err := p.Call(t.Context(), beginOf(""))
	if out != nil || hostapi.KindOf(err) != hostapi.KindInternal ||
		!strings.HasPrefix(err.Error(), "outcome of execjob_begin: ") {
		t.Errorf("got %v, %v", out, err)
	}
}

func TestNoEvents(t *testing.T) {
	_, err := configure(t, newProcess(t, misbehave(t, "no-events")), hostapi.SetupData{})
	if err == nil || !strings.Contains(err.Error(), "handles no event") {
		t.Errorf("got %v", err)
	}
}

// A program that ends in the middle of an event is gone, and says so in every way that a host asks.
func TestProgramThatEndsInAnEventIsGone(t *testing.T) {
	for _, mode := range []string{"exit", "kill", "panic-aside"} {
		t.Run(mode, func(t *testing.T) {
			p, err := configure(t, newProcess(t, misbehave(t, "")),
				hostapi.SetupData{Config: []byte("mode = '" + mode + "'")})
			must.NoError(t, err)
			for range 2 {
				_, err = p.Call(t.Context(), beginOf(""))
				if !errors.Is(err, hostapi.ErrGone) || hostapi.KindOf(err) != hostapi.KindInternal {
					t.Errorf("got %v", err)
				}
			}
			p.plugin.Kill()
			if _, err = p.Call(t.Context(), beginOf("")); !errors.Is(err, hostapi.ErrGone) {
				t.Errorf("after the connection was closed: %v", err)
			}
		})
	}
}

// Jobs do not wait for each other.
func TestJobsInParallel(t *testing.T) {
	p, err := configure(t, newProcess(t, misbehave(t, "")), hostapi.SetupData{Config: []byte("mode = 'wait'")})
	must.NoError(t, err)
	waiting := make(chan error, 1)
	go func() {
		_, err := p.Call(t.Context(), beginOf(""))
		waiting <- err
	}()
	req := beginOf("")
	req.Event = hostapi.EventEnd
	if _, err := p.Call(t.Context(), req); err != nil {
		t.Error(err)
	}
	select {
	case err := <-waiting:
		t.Errorf("the other event came back: %v", err)
	default:
	}
}

// SIGTERM and SIGINT are the host's business.
func TestSignalsToEndAreIgnoredByAHook(t *testing.T) {
	p, err := configure(t, newProcess(t, probeCommand(t)), hostapi.SetupData{})
	must.NoError(t, err)
	pid, err := strconv.Atoi(p.plugin.ID())
	must.NoError(t, err)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		must.NoError(t, syscall.Kill(pid, sig))
		if _, err := p.Call(t.Context(), beginOf("accept")); err != nil {
			t.Errorf("after %v: %v", sig, err)
		}
	}
}

// shortLivedHost starts a probe with a lifeline, prints its pid and waits to be killed.
func shortLivedHost() {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{"HOSTAPI_TEST_HOOK=1", hostapi.LifelineEnv + "=3", "TMPDIR=" + os.TempDir()}
	cmd.ExtraFiles = []*os.File{r}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: hostapi.Handshake, Plugins: plugin.PluginSet{hostapi.PluginName: &hostapi.Plugin{}},
		Cmd: cmd, AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, SkipHostEnv: true,
	})
	if _, err := client.Client(); err != nil {
		panic(err)
	}
	fmt.Println(client.ID())
	io.Copy(io.Discard, os.Stdin)
	fmt.Println(w.Name()) // the writing end lives until here
}

// A killed host leaves no hook behind.
func TestKilledHostTakesItsHooksAlong(t *testing.T) {
	// The orphan comes to this process, which reaps it.
	must.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	self, err := os.Executable()
	must.NoError(t, err)
	host := exec.Command(self)
	host.Env = append(os.Environ(), "HOSTAPI_TEST_HOST=1", "TMPDIR="+t.TempDir())
	stdin, err := host.StdinPipe()
	must.NoError(t, err)
	defer stdin.Close()
	stdout, err := host.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, host.Start())
	var pid int
	if _, err := fmt.Fscan(stdout, &pid); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	must.NoError(t, err)
	defer unix.Close(fd)
	must.NoError(t, host.Process.Kill())
	host.Wait()
	start := time.Now()
	for n := 0; n != 1; {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		if n != 1 && !errors.Is(err, unix.EINTR) {
			unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			t.Fatalf("the hook outlived its host: %v", err)
		}
	}
	t.Logf("gone after %v", time.Since(start))
	if err := unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED, nil); err != nil {
		t.Error(err)
	}
}

func TestBadLifeline(t *testing.T) {
	for _, value := range []string{"x", "2", "77"} {
		cmd := probeCommand(t)
		cmd.Env = append(cmd.Env, hostapi.Handshake.MagicCookieKey+"="+hostapi.Handshake.MagicCookieValue,
			hostapi.LifelineEnv+"="+value)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), "HOOKHOST_LIFELINE_FD="+value+": ") {
			t.Errorf("%s: %q, %v", value, out, err)
		}
	}
}
