// Package mom is a minimal MoM: it walks one job through its events on this host and runs its
// program, as `hookhost run` does.
//
//	begin ── prologue ── launch ── start ── program ── epilogue ── end
//	  │         └──────────┴─────────┴─► abort ── epilogue ── end
//	  └─► rejected: nothing more is sent, the host has undone it
//
// Whatever ends the job (its program, a signal, the caller's context, a host that died), its
// epilogue and end are sent. The epilogue's hooks kill the processes of the job that outlive its
// program.
package mom

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// Engine carries out events: a host, in this process or behind its socket.
type Engine interface {
	Handle(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error)
}

// Spec is a job to run.
type Spec struct {
	// Job has id, owner, resources and exec_vnode set. Run does not change it.
	Job  *hostapi.Job
	Node string             // this host as exec_vnode names it
	MoM  *hostapi.ProcessID // this process; its death ends the job

	Program string   // as a shell takes it: looked up in Env's PATH unless it has a slash
	Args    []string // without the program's name
	Env     []string // what the job's own variables are laid over, "NAME=value"

	// Stdin, Stdout and Stderr are the program's own, untouched; nil is /dev/null. Lines that hooks
	// have for the job's standard error go to Stderr.
	Stdin, Stdout, Stderr *os.File

	Credential *syscall.Credential // who the program runs as; nil for the caller
	Umask      *int                // the program's; nil for the caller's

	// Signals are passed on to the program's process group. SIGTERM, and SIGINT from the second on,
	// ask for the job's end: preterm, SIGTERM, the kill delay, SIGKILL. The next of them is SIGKILL
	// at once. SIGTSTP suspends the job.
	Signals <-chan os.Signal
	// Stop, if set, is called when the job was suspended by SIGTSTP, to stop the calling process as
	// well. When it returns the job is resumed. A job without Stop is resumed by SIGCONT.
	Stop func()

	// AuxDir is where the file PBS_NODEFILE is made; it is created, 0755, when missing. "" for no
	// such file.
	AuxDir string
	// TmpDir is where the job's TMPDIR is made, such as /var/tmp; "" for none.
	TmpDir string
}

// Exit statuses of a job whose program did not run, as a shell and its kin use them.
const (
	ExitFailed        = 125 // it was not started
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// Result is how a job ended.
type Result struct {
	// ExitStatus is what a shell gives: the program's, 128+N for one killed by signal N, else one
	// of the Exit constants.
	ExitStatus int
	Signaled   bool // the program was killed by a signal
	Started    bool // the program ran

	Reject *Reject // the refusal because of which the job was not started; nil without one

	// Outcome holds what the outcomes of all events say together: usage, resources_used, diag,
	// notes. A later event counts more than an earlier one.
	Outcome hostapi.Outcome
}

// Reject is a hook's refusal.
type Reject struct {
	Event   hostapi.Event
	Message string
	Action  hostapi.JobAction
}

func (r *Reject) Error() string {
	if r.Message == "" {
		return fmt.Sprintf("%s rejected", r.Event)
	}
	return fmt.Sprintf("%s rejected: %s", r.Event, r.Message)
}

// Run runs the job and returns how it ended. When ctx is done the program is killed; the job's last
// events are sent in any case. An error comes with a Result that holds as far as the job came. So a
// program's exit status counts even when something failed behind it. A rejected job is no error:
// see Result.Reject.
func Run(ctx context.Context, engine Engine, spec Spec) (Result, error) {
	if err := spec.check(); err != nil {
		return Result{ExitStatus: ExitFailed}, err
	}
	w := newWalk(engine, spec)
	err := w.begin(ctx)
	if err == nil {
		err = w.run(ctx)
	}
	if reject := (*Reject)(nil); errors.As(err, &reject) {
		w.result.Reject, err = reject, nil
	}
	if err := w.stderr.flush(context.WithoutCancel(ctx)); err != nil {
		w.fail(fmt.Errorf("tell job %s: %w", w.job.ID, err))
	}
	w.result.Outcome.JobStderr = w.stderr.lines
	return w.result, errors.Join(err, errors.Join(w.failures...))
}

func (s *Spec) check() error {
	switch {
	case s.Job == nil:
		return errors.New("run: no job")
	case s.Program == "":
		return fmt.Errorf("run job %s: no program", s.Job.ID)
	}
	if d := s.Job.KillDelay; d != nil && (*d < 0 || int64(*d) > longestGrace) {
		return fmt.Errorf("run job %s: kill delay of %d seconds: not between 0 and %d", s.Job.ID, *d, longestGrace)
	}
	return hostapi.CheckJobID(s.Job.ID)
}

// longestGrace, in seconds, is what a time.Duration holds.
const longestGrace = int64(math.MaxInt64 / time.Second)

// grace returns the time between SIGTERM and SIGKILL. PBS's own default is 10 seconds.
func (s *Spec) grace() time.Duration {
	if delay := s.Job.KillDelay; delay != nil {
		return time.Duration(*delay) * time.Second
	}
	return 10 * time.Second
}
