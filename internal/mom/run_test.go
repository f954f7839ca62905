package mom

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
)

// TestMain is also the stub of a job. TestMain has programs start without the signals that nohup
// has this process ignore, as the command run does. A shell cannot trap these.
func TestMain(m *testing.M) {
	if IsStub() {
		RunStub()
		os.Exit(ExitFailed)
	}
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // of signal.Notify
}

func TestRunOrder(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	must.NoError(t, os.WriteFile(plain, nil, 0o644))
	const (
		whole    = "begin prologue launch epilogue end"
		launched = "begin prologue launch abort epilogue end"
	)
	broken := errors.New("broken")
	program := func(name string) Spec {
		s := shell("")
		s.Program, s.Args = name, nil
		return s
	}
	tests := []struct {
		name    string
		spec    Spec
		answers answers
		events  string
		want    Result
		status  int // Exit_status that the epilogue is told; 0 also when there is none
		failed  bool
	}{
		{name: "accepted", spec: shell("exit 0"), events: whole, want: Result{Started: true}},
		{name: "exit status", spec: shell("exit 3"), events: whole, want: Result{Started: true, ExitStatus: 3},
			status: 3},
		{name: "killed", spec: shell("kill -9 $$"), events: whole,
			want: Result{Started: true, Signaled: true, ExitStatus: 137}, status: 265},
		{
			name: "begin rejected", spec: shell("exit 0"),
			answers: answers{hostapi.EventBegin: reject("no room", hostapi.JobActionRerun)}, events: "begin",
			want: Result{ExitStatus: 125,
				Reject: &Reject{Event: hostapi.EventBegin, Message: "no room", Action: hostapi.JobActionRerun}},
		},
		{
			name: "prologue rejected", spec: shell("exit 0"), answers: answers{hostapi.EventPrologue: reject("not now",
				"")}, events: "begin prologue abort epilogue end",
			want:   Result{ExitStatus: 125, Reject: &Reject{Event: hostapi.EventPrologue, Message: "not now"}},
			status: -16,
		},
		{
			name: "launch rejected", spec: shell("exit 0"), answers: answers{hostapi.EventLaunch: reject("never", "")},
			events: launched,
			want:   Result{ExitStatus: 125, Reject: &Reject{Event: hostapi.EventLaunch, Message: "never"}}, status: -17,
		},
		{
			name: "launch rejected, to be run again", spec: shell("exit 0"),
			answers: answers{hostapi.EventLaunch: reject("", hostapi.JobActionRerun)}, events: launched,
			want: Result{ExitStatus: 125,
				Reject: &Reject{Event: hostapi.EventLaunch, Action: hostapi.JobActionRerun}},
			status: -18,
		},
		{
			name: "prologue rejected, to be deleted", spec: shell("exit 0"),
			answers: answers{hostapi.EventPrologue: reject("", hostapi.JobActionDelete)},
			events:  "begin prologue abort epilogue end",
			want: Result{ExitStatus: 125,
				Reject: &Reject{Event: hostapi.EventPrologue, Action: hostapi.JobActionDelete}}, status: -19,
		},
		{name: "begin fails", spec: shell("exit 0"), answers: answers{hostapi.EventBegin: always(nil, broken)},
			events: "begin", want: Result{ExitStatus: 125}, failed: true},
		{name: "prologue fails", spec: shell("exit 0"), answers: answers{hostapi.EventPrologue: always(nil, broken)},
			events: "begin prologue abort epilogue end", want: Result{ExitStatus: 125}, status: -22, failed: true},
		{name: "launch fails", spec: shell("exit 0"), answers: answers{hostapi.EventLaunch: always(nil, broken)},
			events: launched, want: Result{ExitStatus: 125}, status: -22, failed: true},
		{name: "epilogue fails", spec: shell("exit 4"), answers: answers{hostapi.EventEpilogue: always(nil, broken)},
			events: whole, want: Result{Started: true, ExitStatus: 4}, status: 4, failed: true},
		{name: "epilogue rejected", spec: shell("exit 4"), answers: answers{hostapi.EventEpilogue: reject("hm", "")},
			events: whole, want: Result{Started: true, ExitStatus: 4}, status: 4, failed: true},
		{name: "end fails", spec: shell("exit 4"), answers: answers{hostapi.EventEnd: always(nil, broken)},
			events: whole, want: Result{Started: true, ExitStatus: 4}, status: 4, failed: true},
		{name: "nil outcome accepts", spec: shell("exit 0"), answers: answers{hostapi.EventBegin: always(nil, nil)},
			events: whole, want: Result{Started: true}},
		{name: "no such program", spec: program("no-such-program"), events: launched, want: Result{ExitStatus: 127},
			status: 127, failed: true},
		{name: "no such file", spec: program(dir + "/absent"), events: launched, want: Result{ExitStatus: 127},
			status: 127, failed: true},
		{name: "below a file", spec: program(plain + "/absent"), events: launched, want: Result{ExitStatus: 127},
			status: 127, failed: true},
		{name: "not executable", spec: program(plain), events: launched, want: Result{ExitStatus: 126}, status: 126,
			failed: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			engine := &recorder{answer: tt.answers}
			got, err := Run(t.Context(), engine, tt.spec)
			if (err != nil) != tt.failed {
				t.Errorf("error %v, want one: %v", err, tt.failed)
			}
			if events := strings.Join(engine.events(), " "); events != tt.events {
				t.Errorf("events %q, want %q", events, tt.events)
			}
			must.Equal(t, "result", tt.want, got)
			if req := engine.request(hostapi.EventEpilogue); req != nil {
				if req.Job.ExitStatus == nil || *req.Job.ExitStatus != tt.status {
					t.Errorf("Exit_status at epilogue %v, want %d", req.Job.ExitStatus, tt.status)
				}
			}
		})
	}
}

func TestRunRefusesWhatIsNoExecVnode(t *testing.T) {
	spec := shell("true")
	job := *spec.Job
	job.ExecVnode = "(n1"
	spec.Job = &job
	if _, err := Run(t.Context(), &recorder{}, spec); err == nil {
		t.Error("an exec_vnode that is none")
	}
}

func TestRunTellsTheJob(t *testing.T) {
	spec := shell("exit 5")
	spec.MoM = &hostapi.ProcessID{PID: 1, StartTime: 2, BootID: "3"}
	engine := &recorder{answer: answers{
		hostapi.EventBegin: always(&hostapi.Outcome{ResourcesUsed: hostapi.Resources{"mem": "0kb"},
			Notes: []string{"a"}}, nil),
		hostapi.EventEpilogue: always(&hostapi.Outcome{
			ResourcesUsed: hostapi.Resources{"mem": "4kb"}, Usage: &hostapi.HostUsage{NCPUs: 1}, Diag: "d",
			Notes: []string{"a", "b"},
		}, nil),
	}}
	began := time.Now()
	result, err := Run(t.Context(), engine, spec)
	must.NoError(t, err)
	walltime := result.Outcome.ResourcesUsed["walltime"]
	if most := pbs.FormatDuration(time.Since(began)); walltime < "00:00:00" || walltime > most {
		t.Errorf("walltime %q, want %s at most", walltime, most)
	}
	want := hostapi.Outcome{
		ResourcesUsed: hostapi.Resources{"mem": "4kb", "walltime": walltime}, Usage: &hostapi.HostUsage{NCPUs: 1},
		Diag: "d", Notes: []string{"a", "b"},
	}
	must.Equal(t, "outcome", want, result.Outcome)
	for i, req := range engine.sent {
		if req.Node != "n1" || req.Job.ID != "12.srv" || (req.MoM != nil) != (i == 0) {
			t.Errorf("%s: node %q, job %q, MoM %v", req.Event, req.Node, req.Job.ID, req.MoM)
		}
		launched := req.Event != hostapi.EventBegin && req.Event != hostapi.EventPrologue
		if (req.Job.SessionID > 0) != launched {
			t.Errorf("%s: session %d", req.Event, req.Job.SessionID)
		}
	}
	if used := engine.request(hostapi.EventPrologue).Job.ResourcesUsed; used["mem"] != "0kb" {
		t.Errorf("resources_used at prologue: %v", used)
	}
	if spec.Job.ExitStatus != nil || spec.Job.ResourcesUsed != nil {
		t.Errorf("the caller's job was changed: %+v", spec.Job)
	}
}

// A daemon that is gone at a job's end fails epilogue and end alike.
func TestRunTheSameErrorOnce(t *testing.T) {
	gone := always(nil, errors.New("no daemon runs"))
	engine := &recorder{answer: answers{hostapi.EventEpilogue: gone, hostapi.EventEnd: gone}}
	result, err := Run(t.Context(), engine, shell("exit 4"))
	if err == nil || err.Error() != "no daemon runs" || result.ExitStatus != 4 {
		t.Errorf("Run = %+v, %v", result, err)
	}
}

func TestRunJobStderrOnce(t *testing.T) {
	line := "Cgroup mem limit exceeded: oom-kill"
	out := always(&hostapi.Outcome{JobStderr: []string{line}}, nil)
	engine := &recorder{answer: answers{hostapi.EventEpilogue: out, hostapi.EventEnd: out}}
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	must.NoError(t, err)
	defer f.Close()
	spec := shell("echo own >&2")
	spec.Stderr = f
	result, err := Run(t.Context(), engine, spec)
	must.NoError(t, err)
	b, err := os.ReadFile(f.Name())
	if want := "own\n" + line + "\n"; err != nil || string(b) != want {
		t.Errorf("stderr %q, %v; want %q", b, err, want)
	}
	must.Equal(t, "job stderr", []string{line}, result.Outcome.JobStderr)
}

// A stuck reader holds up neither epilogue nor end, and gets each line once and in order.
func TestRunEventLinesIntoFullPipe(t *testing.T) {
	out, in, err := os.Pipe()
	must.NoError(t, err)
	defer out.Close()
	first, second, third := strings.Repeat("x", 1<<20), "second", "third"
	engine := &recorder{answer: answers{
		hostapi.EventEpilogue: always(&hostapi.Outcome{JobStderr: []string{first, second}}, nil),
		hostapi.EventEnd:      always(&hostapi.Outcome{JobStderr: []string{second, first, third}}, nil),
	}}
	spec := shell("exit 0")
	spec.Stderr = in
	done := make(chan error, 1)
	go func() { _, err := Run(t.Context(), engine, spec); in.Close(); done <- err }()
	must.Eventually(t, "the end is sent", func() bool { return engine.request(hostapi.EventEnd) != nil })
	got, err := io.ReadAll(out)
	if want := first + "\n" + second + "\n" + third + "\n"; err != nil || string(got) != want {
		t.Errorf("%d bytes, %v; want %d, each line once and in order", len(got), err, len(want))
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
