package hostapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/hostapi/hooktest"
	"github.com/hookhost/hookhost/internal/must"
)

// hook is what both transports give.
type hook interface {
	Call(context.Context, *hostapi.Request) (*hostapi.Outcome, error)
	Events() []hostapi.Event
}

// overBoth runs the same test with the hook in memory and in a process of its own.
func overBoth(t *testing.T, test func(t *testing.T, start func(t *testing.T, setup hostapi.SetupData) (hook, error))) {
	t.Run("memory", func(t *testing.T) {
		test(t, func(t *testing.T, setup hostapi.SetupData) (hook, error) {
			return hooktest.Try(t, newProbe, setup)
		})
	})
	t.Run("process", func(t *testing.T) {
		test(t, func(t *testing.T, setup hostapi.SetupData) (hook, error) {
			return configure(t, newProcess(t, probeCommand(t)), setup)
		})
	})
}

// process is a hook's program under go-plugin.
type process struct {
	client *hostapi.Client
	events []hostapi.Event

	plugin         *plugin.Client
	log            *buffer // what the program logged
	stdout, stderr *buffer // what the program printed
}

func (p *process) Events() []hostapi.Event { return p.events }
func (p *process) Call(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return p.client.Handle(ctx, req)
}

// buffer may be read while it is written.
type buffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	written chan struct{} // holds a token when something came since the last look
}

func newBuffer() *buffer { return &buffer{written: make(chan struct{}, 1)} }

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.written <- struct{}{}:
	default:
	}
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// await waits until all of text has come.
func (b *buffer) await(t *testing.T, text string) {
	t.Helper()
	late := time.After(10 * time.Second)
	for !strings.Contains(b.String(), text) {
		select {
		case <-b.written:
		case <-late:
			t.Fatalf("no %q in %q", text, b)
		}
	}
}

func probeCommand(t testing.TB) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = []string{"HOSTAPI_TEST_HOOK=1"}
	return cmd
}

func newProcess(t testing.TB, cmd *exec.Cmd) *process {
	p := &process{log: newBuffer(), stdout: newBuffer(), stderr: newBuffer()}
	dir, err := os.MkdirTemp("", "hh") // not t.TempDir: the path of a unix socket has to be short
	must.NoError(t, err)
	cmd.Env = append(cmd.Env, plugin.EnvUnixSocketDir+"="+dir)
	p.plugin = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  hostapi.Handshake,
		Plugins:          plugin.PluginSet{hostapi.PluginName: &hostapi.Plugin{}},
		Cmd:              cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     20 * time.Second,
		Logger:           hclog.NewNullLogger(),
		Stderr:           p.log,
		SyncStdout:       p.stdout,
		SyncStderr:       p.stderr,
	})
	t.Cleanup(func() {
		p.plugin.Kill()
		os.RemoveAll(dir)
	})
	return p
}

// start gets the client of the program.
func (p *process) start() error {
	protocol, err := p.plugin.Client()
	if err != nil {
		return err
	}
	raw, err := protocol.Dispense(hostapi.PluginName)
	if err != nil {
		return err
	}
	p.client = raw.(*hostapi.Client)
	return nil
}

func configure(t testing.TB, p *process, setup hostapi.SetupData) (*process, error) {
	t.Helper()
	if err := p.start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	info, err := p.client.Configure(t.Context(), setup)
	p.events = info.Events
	return p, err
}

// ended stops the program and returns the log of its life.
func (p *process) ended() string {
	p.plugin.Kill()
	return p.log.String()
}

func beginOf(name string) *hostapi.Request {
	return &hostapi.Request{Event: hostapi.EventBegin, Job: &hostapi.Job{
		ID: "12.server", Name: name, Owner: hostapi.Owner{User: "u", UID: -1, GID: -1}, MotherSuperior: true,
		State: json.RawMessage(`{"a":[1,2]}`),
	}}
}

func TestCallReturnsOutcomeOrError(t *testing.T) {
	tests := []struct {
		name string
		want *hostapi.Outcome
		kind hostapi.Kind
		text string
	}{
		{name: "accept", want: &hostapi.Outcome{}},
		{name: "reject why", want: &hostapi.Outcome{Reject: true, Message: "why", OnReject: hostapi.JobActionRerun}},
		{name: "error job", kind: hostapi.KindJob, text: "begin job 12.server: no \uFFFD luck"},
		{name: "error node", kind: hostapi.KindNode, text: "begin job 12.server: no \uFFFD luck"},
		{name: "error strange", kind: hostapi.KindInternal, text: "begin job 12.server: no \uFFFD luck"},
		{name: "plain", kind: hostapi.KindInternal, text: "a plain error"},
		{name: "partial", want: &hostapi.Outcome{Notes: []string{"half"}}, kind: hostapi.KindBusy, text: "not all"},
		{name: "panic", kind: hostapi.KindInternal, text: "panic in execjob_begin: on purpose"},
		{name: "misfit", kind: hostapi.KindInternal,
			text: "outcome of execjob_begin: argv: execjob_begin does not take it"},
		{name: "saw", want: &hostapi.Outcome{
			Notes: []string{"test1 node7 pbs_jobs hello 12.server uid=-1 ms=true"},
			State: json.RawMessage(`{"a":[1,2]}`),
		}},
	}
	overBoth(t, func(t *testing.T, start func(*testing.T, hostapi.SetupData) (hook, error)) {
		h, err := start(t, hostapi.SetupData{
			Name: "test1", Node: "node7", Config: []byte(`greeting = "hello"`),
			Host: map[string]string{"prefix": "pbs_jobs"},
		})
		must.NoError(t, err)
		must.Equal(t, "events", []hostapi.Event{hostapi.EventBegin, hostapi.EventEnd}, h.Events())
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				got, err := h.Call(t.Context(), beginOf(tt.name))
				must.Equal(t, "outcome", tt.want, got)
				if kind := hostapi.KindOf(err); kind != tt.kind {
					t.Errorf("kind = %q, want %q", kind, tt.kind)
				}
				if err != nil && err.Error() != tt.text {
					t.Errorf("error %q, want %q", err, tt.text)
				}
			})
		}
	})
}

func TestUnhandledEvent(t *testing.T) {
	overBoth(t, func(t *testing.T, start func(*testing.T, hostapi.SetupData) (hook, error)) {
		h, err := start(t, hostapi.SetupData{})
		must.NoError(t, err)
		req := beginOf("accept")
		req.Event = hostapi.EventLaunch
		if _, err := h.Call(t.Context(), req); err == nil ||
			!strings.Contains(err.Error(), `event "execjob_launch": the hook does not handle it`) {
			t.Errorf("got %v", err)
		}
	})
}

// A hook that watches its deadline and one that does not give the same error.
func TestDeadlineIsOneErrorWhetherOrNotAHookWatchesIt(t *testing.T) {
	overBoth(t, func(t *testing.T, start func(*testing.T, hostapi.SetupData) (hook, error)) {
		h, err := start(t, hostapi.SetupData{})
		must.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = h.Call(ctx, beginOf("wait"))
		if hostapi.KindOf(err) != hostapi.KindTimeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v of kind %q, want a timeout", err, hostapi.KindOf(err))
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err = h.Call(ctx, beginOf("wait")); !errors.Is(err, context.Canceled) || errors.Is(err, hostapi.ErrGone) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}

func TestConfigureFails(t *testing.T) {
	tests := []struct {
		name, config, level string
		kind                hostapi.Kind
		text                string
	}{
		{name: "unknown key", config: "greeting='x'\ngretting='y'", kind: hostapi.KindNode,
			text: "configuration of hook h: line 2: gretting: unknown key"},
		{name: "panic", config: `{"greeting": "panic"}`, kind: hostapi.KindInternal,
			text: "panic in the hook's constructor: in the constructor"},
		{name: "level", level: "loud", kind: hostapi.KindInternal, text: `configure: log level "loud": unknown`},
	}
	overBoth(t, func(t *testing.T, start func(*testing.T, hostapi.SetupData) (hook, error)) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				_, err := start(t, hostapi.SetupData{Name: "h", Config: []byte(tt.config), LogLevel: tt.level})
				if err == nil || err.Error() != tt.text || hostapi.KindOf(err) != tt.kind {
					t.Errorf("got %v (%s), want %s (%s)", err, hostapi.KindOf(err), tt.text, tt.kind)
				}
			})
		}
	})
}

func TestConfigureOnce(t *testing.T) {
	p, err := configure(t, newProcess(t, probeCommand(t)), hostapi.SetupData{})
	must.NoError(t, err)
	if _, err := p.client.Configure(t.Context(), hostapi.SetupData{}); err == nil ||
		!strings.Contains(err.Error(), "configured already") {
		t.Errorf("got %v", err)
	}
}

func TestHandleBeforeConfigure(t *testing.T) {
	p := newProcess(t, probeCommand(t))
	must.NoError(t, p.start())
	if _, err := p.Call(t.Context(), beginOf("accept")); err == nil ||
		!strings.Contains(err.Error(), "not configured yet") {
		t.Errorf("got %v", err)
	}
	// A hook that refused its configuration may get another.
	if _, err := p.client.Configure(t.Context(), hostapi.SetupData{Config: []byte("nonsense")}); err == nil {
		t.Error("configured with nonsense")
	}
	if _, err := p.client.Configure(t.Context(), hostapi.SetupData{}); err != nil {
		t.Error(err)
	}
}

// Large events pass: gRPC's own limit is 4 MiB.
func TestLargeRequest(t *testing.T) {
	overBoth(t, func(t *testing.T, start func(*testing.T, hostapi.SetupData) (hook, error)) {
		h, err := start(t, hostapi.SetupData{})
		must.NoError(t, err)
		req := beginOf("saw")
		req.Job.State = json.RawMessage(`"` + strings.Repeat("x", hostapi.MaxState-2) + `"`)
		req.Env = map[string]string{"BIG": strings.Repeat("y", hostapi.RequestLimit)}
		out, err := h.Call(t.Context(), req)
		if err != nil || len(out.State) != hostapi.MaxState {
			t.Errorf("got %d bytes of state, %v", len(out.State), err)
		}
	})
}

// A hook's log keeps level, message and fields on the way to the host.
func TestLogOfAHookKeepsLevelMessageAndFields(t *testing.T) {
	p, err := configure(t, newProcess(t, probeCommand(t)), hostapi.SetupData{})
	must.NoError(t, err)
	for _, name := range []string{"log", "panic", "print"} {
		p.Call(t.Context(), beginOf(name))
	}
	p.stdout.await(t, "to stdout\n") // a stream of its own, which a call does not wait for
	p.stderr.await(t, "to stderr\n")
	log := p.ended()
	lines := map[string]map[string]any{}
	for dec := json.NewDecoder(strings.NewReader(log)); ; {
		var line map[string]any
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		message, _ := line["@message"].(string)
		lines[message[:min(len(message), 9)]] = line
	}
	warning := lines["a warning"]
	if warning["@level"] != "warning" || warning["answer"] != 42.0 || warning["err"] != "why" {
		t.Errorf("warning came as %v", warning)
	}
	if stack, _ := lines["panic in "]["stack"].(string); !strings.Contains(stack, "probe_test.go") {
		t.Errorf("panic came as %v", lines["panic in "])
	}
	if strings.Contains(log, "not to be seen") {
		t.Error("a debug line came at level info")
	}
	if p.stdout.String() != "to stdout\n" || p.stderr.String() != "to stderr\n" {
		t.Errorf("stdout %q, stderr %q", p.stdout, p.stderr)
	}
}
