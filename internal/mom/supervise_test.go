package mom

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// running is a job in the background whose program says "ready" when it is.
type running struct {
	engine  *recorder
	signals chan os.Signal
	lines   *bufio.Scanner
	done    chan struct{}
	result  Result
	err     error
}

func start(t *testing.T, ctx context.Context, answer answers, spec Spec) *running {
	t.Helper()
	r := &running{engine: &recorder{answer: answer}, signals: make(chan os.Signal, 8), done: make(chan struct{})}
	spec.Stdout, r.lines = pipe(t)
	spec.Signals = r.signals
	go func() {
		defer close(r.done)
		r.result, r.err = Run(ctx, r.engine, spec)
	}()
	r.read(t, "ready")
	return r
}

// read returns when the program has written line.
func (r *running) read(t *testing.T, line string) {
	t.Helper()
	for r.lines.Scan() {
		if r.lines.Text() == line {
			return
		}
	}
	t.Fatalf("the program did not write %q: %v", line, r.lines.Err())
}

// end checks how the job ended.
func (r *running) end(t *testing.T, status int, events string) {
	t.Helper()
	<-r.done
	if r.result.ExitStatus != status || !r.result.Started {
		t.Errorf("exit status %d, want %d (%v)", r.result.ExitStatus, status, r.err)
	}
	if got := strings.Join(r.engine.events(), " "); got != events {
		t.Errorf("events %q, want %q", got, events)
	}
}

// wait is a loop of a shell that runs its traps at once.
const wait = "echo ready; while :; do sleep 60 & wait $!; done"

const (
	plainEvents   = "begin prologue launch epilogue end"
	pretermEvents = "begin prologue launch preterm epilogue end"
)

func TestSignalsArePassedOn(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			r := start(t, t.Context(), nil,
				shell("trap 'exit 7' "+strings.TrimPrefix(unix.SignalName(sig), "SIG")+"; "+wait))
			r.signals <- sig
			r.end(t, 7, plainEvents)
		})
	}
}

func TestSignalKillsProgram(t *testing.T) {
	r := start(t, t.Context(), nil, shell(wait))
	r.signals <- unix.SIGHUP
	r.end(t, 129, plainEvents)
	if !r.result.Signaled {
		t.Error("not told as killed by a signal")
	}
}

func TestSIGTERMReachesTheProgram(t *testing.T) {
	r := start(t, t.Context(), nil, shell("trap 'exit 7' TERM; "+wait))
	r.signals <- unix.SIGTERM
	r.end(t, 7, pretermEvents)
}

func TestSecondInterruptTerminates(t *testing.T) {
	r := start(t, t.Context(), nil, shell("trap 'echo int' INT; trap 'exit 7' TERM; "+wait))
	r.signals <- unix.SIGINT
	r.read(t, "int")
	r.signals <- unix.SIGINT
	r.end(t, 7, pretermEvents)
}

func TestGraceEndsInKill(t *testing.T) {
	spec := shell("trap '' TERM; " + wait)
	spec.Job.KillDelay = new(1)
	r := start(t, t.Context(), nil, spec)
	r.signals <- unix.SIGTERM
	r.end(t, 137, pretermEvents)
}

func TestThirdSignalKills(t *testing.T) {
	spec := shell("trap 'echo term' TERM; " + wait)
	spec.Job.KillDelay = new(3600)
	r := start(t, t.Context(), nil, spec)
	r.signals <- unix.SIGTERM
	r.read(t, "term")
	r.signals <- unix.SIGTERM
	r.end(t, 137, pretermEvents)
}

func TestPretermMayRefuse(t *testing.T) {
	r := start(t, t.Context(), answers{hostapi.EventPreterm: reject("not this one", "")},
		shell("trap 'exit 7' USR1; trap 'exit 8' TERM; "+wait))
	r.signals <- unix.SIGTERM
	r.signals <- unix.SIGUSR1
	r.end(t, 7, pretermEvents)
	if refused := (*Reject)(nil); !errors.As(r.err, &refused) || r.result.Reject != nil {
		t.Errorf("error %v, reject %v", r.err, r.result.Reject)
	}
}

func TestPretermFailureDoesNotProtect(t *testing.T) {
	r := start(t, t.Context(), answers{hostapi.EventPreterm: always(nil, errors.New("broken"))},
		shell("trap 'exit 8' TERM; "+wait))
	r.signals <- unix.SIGTERM
	r.end(t, 8, pretermEvents)
}

func TestContextKills(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := start(t, ctx, nil, shell("trap '' TERM INT HUP; "+wait))
	cancel()
	r.end(t, 137, plainEvents)
}

func TestEndAskedBeforeStart(t *testing.T) {
	t.Run("signal", func(t *testing.T) {
		signals := make(chan os.Signal, 2)
		spec := shell("exit 0")
		spec.Signals = signals
		engine := &recorder{answer: answers{hostapi.EventPrologue: func(*hostapi.Request) (*hostapi.Outcome, error) {
			signals <- unix.SIGUSR1
			signals <- unix.SIGINT
			return nil, nil
		}}}
		result, err := Run(t.Context(), engine, spec)
		if got := strings.Join(engine.events(), " "); err == nil || result.ExitStatus != 130 || result.Started ||
			got != "begin prologue abort epilogue end" {
			t.Errorf("Run = %+v, %v; events %q", result, err, got)
		}
		if status := engine.request(hostapi.EventEpilogue).Job.ExitStatus; *status != 258 {
			t.Errorf("Exit_status %d, want 258", *status)
		}
	})
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		engine := &recorder{answer: answers{hostapi.EventBegin: func(*hostapi.Request) (*hostapi.Outcome, error) {
			cancel()
			return nil, nil
		}}}
		result, err := Run(ctx, engine, shell("exit 0"))
		if got := strings.Join(engine.events(), " "); !errors.Is(err, context.Canceled) || result.Started ||
			got != "begin abort epilogue end" {
			t.Errorf("Run = %+v, %v; events %q", result, err, got)
		}
		if _, err := Run(ctx, &recorder{}, shell("exit 0")); !errors.Is(err, context.Canceled) {
			t.Errorf("Run with a done context: %v", err)
		}
	})
	t.Run("closed signals", func(t *testing.T) {
		signals := make(chan os.Signal)
		close(signals)
		spec := shell("exit 0")
		spec.Signals = signals
		if result, err := Run(t.Context(), &recorder{}, spec); err != nil || !result.Started {
			t.Errorf("Run = %+v, %v", result, err)
		}
	})
}

// TestSuspendedProgramStopsAndResumes stops a program that counts and resumes it.
func TestSuspendedProgramStopsAndResumes(t *testing.T) {
	t.Run("until the caller goes on", func(t *testing.T) {
		spec := shell("trap 'exit 7' USR1; " + wait)
		stopped := make(chan struct{})
		var stat string
		spec.Stop = func() {
			close(stopped)
			must.Eventually(t, "the program stands", func() bool {
				b, _ := os.ReadFile(stat)
				return strings.Contains(string(b), ") T ")
			})
		}
		answer := answers{hostapi.EventPostsuspend: func(req *hostapi.Request) (*hostapi.Outcome, error) {
			stat = fmt.Sprintf("/proc/%d/stat", req.Job.SessionID)
			return nil, nil
		}}
		r := start(t, t.Context(), answer, spec)
		r.signals <- unix.SIGTSTP
		<-stopped
		r.signals <- unix.SIGUSR1
		r.end(t, 7, "begin prologue launch postsuspend preresume epilogue end")
	})
	t.Run("until SIGCONT, which a hook may refuse", func(t *testing.T) {
		refuse := true
		answer := answers{hostapi.EventPreresume: func(*hostapi.Request) (*hostapi.Outcome, error) {
			out := &hostapi.Outcome{Reject: refuse}
			refuse = false
			return out, nil
		}}
		r := start(t, t.Context(), answer, shell("trap 'exit 7' USR1; "+wait))
		for _, sig := range []unix.Signal{unix.SIGTSTP, unix.SIGTSTP, unix.SIGCONT, unix.SIGCONT, unix.SIGUSR1} {
			r.signals <- sig
		}
		r.end(t, 7, "begin prologue launch postsuspend preresume preresume epilogue end")
	})
	t.Run("and terminated", func(t *testing.T) {
		r := start(t, t.Context(), nil, shell("trap 'exit 7' TERM; "+wait))
		r.signals <- unix.SIGTSTP
		r.signals <- unix.SIGTERM
		r.end(t, 7, "begin prologue launch postsuspend preterm epilogue end")
	})
}
