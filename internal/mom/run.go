// Package mom is a minimal MoM: it walks one job through its events on this host and runs its
// program, as `hookhost run` does.
//
//	begin ── prologue ── launch ── start ── program ── epilogue ── end
//	  │         └──────────┴─────────┴─► abort ── epilogue ── end
//	  └─► rejected: nothing more is sent, the host has undone it
//
// Whatever ends the job (its program, a signal, the caller's context, a host that died), its
// epilogue and end are sent. The epilogue's hooks kill processes of the job that outlive its
// program.
package mom

import (
	"context"
	"errors"
	"fmt"
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
	// Job has id, owner, resources and exec_vnode set, and is valid: see Request. Run does not
	// change it.
	Job  *hostapi.Job
	Node string             // this host as exec_vnode names it
	MoM  *hostapi.ProcessID // this process; its death ends the job

	Program string   // looked up in Env's PATH unless it has a slash, as in a shell
	Args    []string // without the program's name
	Env     []string // "NAME=value"; the job's variables are added to these

	// The program uses Stdin, Stdout and Stderr directly; nil is /dev/null. Lines from hooks for
	// the job's standard error go to Stderr.
	Stdin, Stdout, Stderr *os.File

	Credential *syscall.Credential // user of the program; nil means the caller
	Umask      int                 // umask of the program

	// Signals are passed on to the program's process group. SIGTERM, and SIGINT from the second on,
	// request the job's end: preterm, SIGTERM, the kill delay, SIGKILL. The next of these means
	// SIGKILL at once. SIGTSTP suspends the job.
	Signals <-chan os.Signal
	// Stop, if set, is called when the job was suspended by SIGTSTP, to stop the calling process as
	// well. When it returns, the job is resumed. A job without Stop is resumed by SIGCONT.
	Stop func()

	// AuxDir is the directory for the file PBS_NODEFILE. If missing, it is created with mode 0755.
	// "" means no such file.
	AuxDir string
	// TmpDir is the directory for the job's TMPDIR, such as /var/tmp; "" means no TMPDIR.
	TmpDir string
	// Namespaces is the directory where hook private pins the mount namespaces of jobs; "" means
	// none.
	Namespaces string
}

// Exit statuses of a job whose program did not run, as used by shells and similar programs.
const (
	ExitFailed        = 125 // it was not started
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// Result is how a job ended.
type Result struct {
	// ExitStatus is the status as in a shell: the program's, 128+N if signal N killed it, else one
	// of the Exit constants.
	ExitStatus int
	Signaled   bool // a signal killed the program, or ended the job before its start
	Started    bool // the program ran

	Reject *Reject // the refusal that kept the job from starting; nil without one

	// Outcome combines the outcomes of all events: usage, resources_used, diag, notes. Later events
	// take precedence.
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
// events are sent in any case. Even with an error, the Result is valid as far as the job came. So a
// program's exit status counts even if something failed afterwards. A rejected job is not an error:
// see Result.Reject.
func Run(ctx context.Context, engine Engine, spec Spec) (Result, error) {
	w := newWalk(engine, spec)
	err := w.begin(ctx)
	if err == nil {
		err = w.run(ctx)
	}
	if reject := (*Reject)(nil); errors.As(err, &reject) {
		w.result.Reject, err = reject, nil
	}
	w.stderr.flush(-1)
	if err := w.stderr.err; err != nil {
		w.fail(fmt.Errorf("tell job %s: %w", w.job.ID, err))
	}
	w.result.Outcome.JobStderr = w.stderr.lines
	return w.result, errors.Join(err, errors.Join(w.failures...))
}

// grace returns the time between SIGTERM and SIGKILL. PBS's default is 10 seconds.
func (s *Spec) grace() time.Duration {
	if delay := s.Job.KillDelay; delay != nil {
		return time.Duration(*delay) * time.Second
	}
	return 10 * time.Second
}
