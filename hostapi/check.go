package hostapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxState is the largest state that a hook may store for one job, in bytes.
const MaxState = 1 << 20

// MaxLine bounds one line of text for people, such as the message of a rejection, in bytes.
const MaxLine = 4 << 10

// MaxTexts bounds the notes of hooks in a job's record, and its lines for standard error. Of one
// answer the host uses no more than one further text of each kind, which shows that there are more.
const MaxTexts = 256

// Check returns an error if o is not a valid answer to e. Such an answer has a key that e does not
// take, or a value that means nothing. The error begins with the key. The host calls Check before
// it uses an outcome.
func (o *Outcome) Check(e Event) error {
	switch o.OnReject {
	case JobActionNone, JobActionRerun, JobActionDelete, JobActionHold:
	default:
		return fmt.Errorf("job_action: %q is none of rerun, delete, hold", o.OnReject)
	}
	if err := o.checkProgram(e); err != nil {
		return err
	}
	if err := o.checkVnodes(e); err != nil {
		return err
	}
	if err := checkKept(o.State, o.CallAgain, o.CallAtElapsed, o.WalltimeLimit); err != nil {
		return err
	}
	if err := o.Usage.CheckSeries(); err != nil {
		return err
	}
	if !e.ForJob() {
		return o.checkJobs(e)
	}
	if o.Jobs != nil {
		return fmt.Errorf("jobs: %s is about one job", e)
	}
	return nil
}

// checkProgram checks the changes to the program to start.
func (o *Outcome) checkProgram(e Event) error {
	if e != EventLaunch {
		for _, part := range []struct {
			key string
			set bool
		}{
			{"progname", o.Progname != nil},
			{"argv", o.Argv != nil},
			{"unset_env", o.UnsetEnv != nil},
			{"set_env", o.SetEnv != nil && e != EventAttach},
		} {
			if part.set {
				return fmt.Errorf("%s: %s does not take it", part.key, e)
			}
		}
	}
	if o.AttachEnv != nil && e.ForJob() && e != EventBegin && e != EventResize {
		return fmt.Errorf("attach_env: %s does not take it", e)
	}
	if err := checkEnv("attach_env", o.AttachEnv); err != nil {
		return err
	}
	if o.Progname != nil && (*o.Progname == "" || hasNUL(*o.Progname)) {
		return fmt.Errorf("progname: %q cannot be started", *o.Progname)
	}
	if i := slices.IndexFunc(o.Argv, hasNUL); i >= 0 {
		return fmt.Errorf("argv[%d]: holds a NUL byte", i)
	}
	if err := checkEnv("set_env", o.SetEnv); err != nil {
		return err
	}
	for _, name := range o.UnsetEnv {
		if _, both := o.SetEnv[name]; both {
			return fmt.Errorf("unset_env: %s is in set_env too", name)
		}
	}
	return nil
}

// checkJobs checks an outcome of an exechost event: everything that concerns a job must name the
// job.
func (o *Outcome) checkJobs(e Event) error {
	for _, part := range []struct {
		key string
		set bool
	}{
		{"resources_used", o.ResourcesUsed != nil},
		{"usage", o.Usage != nil},
		{"job_stderr", o.JobStderr != nil},
		{"state", o.State != nil},
		{"call_again", o.CallAgain != 0},
		{"call_at_elapsed", o.CallAtElapsed != 0},
		{"walltime_limit", o.WalltimeLimit != nil},
		{"attach_env", o.AttachEnv != nil},
	} {
		if part.set {
			return fmt.Errorf("%s: %s takes it per job, in jobs", part.key, e)
		}
	}
	for id, update := range o.Jobs {
		if err := CheckJobID(id); err != nil {
			return fmt.Errorf("jobs: %w", err)
		}
		if update == nil {
			return fmt.Errorf("jobs: %s: empty", id)
		}
		if err := update.check(); err != nil {
			return fmt.Errorf("jobs: %s: %w", id, err)
		}
	}
	return nil
}

// check checks what the host would record about a job.
func (u *JobUpdate) check() error {
	if err := checkKept(u.State, u.CallAgain, u.CallAtElapsed, u.WalltimeLimit); err != nil {
		return err
	}
	if err := checkEnv("attach_env", u.AttachEnv); err != nil {
		return err
	}
	if n := len(u.Strays); n > MaxStrays {
		return fmt.Errorf("strays: %d are more than %d", n, MaxStrays)
	}
	if err := u.Usage.CheckSeries(); err != nil {
		return err
	}
	if u.Usage != nil && len(u.Usage.Ranks) > MaxRanks {
		return fmt.Errorf("usage: ranks: %d are more than %d", len(u.Usage.Ranks), MaxRanks)
	}
	return nil
}

// checkVnodes checks the report to PBS about vnodes: attach and resize allow none (openpbs
// pbs_python_svr_internal.c). Whether the vnodes are this host's is checked by callers that know
// its name.
func (o *Outcome) checkVnodes(e Event) error {
	if o.Vnodes != nil && (e == EventAttach || e == EventResize) {
		return fmt.Errorf("vnodes: %s does not take it", e)
	}
	for name, v := range o.Vnodes {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return fmt.Errorf("vnodes: %q is not a vnode's name", name)
		}
		if v == nil {
			return fmt.Errorf("vnodes: %s: empty", name)
		}
		for part, text := range map[string]string{"state": v.State, "sharing": v.Sharing} {
			if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				return fmt.Errorf("vnodes: %s.%s: %q is not one line", name, part, text)
			}
		}
		if v.Comment != nil && strings.ContainsAny(*v.Comment, "\n\x00") {
			return fmt.Errorf("vnodes: %s.comment: %q is not one line", name, *v.Comment)
		}
	}
	return nil
}

// checkKept checks what the host would store for a job.
func checkKept(state json.RawMessage, again, elapsed time.Duration, limit *time.Duration) error {
	switch {
	case len(state) > MaxState:
		return fmt.Errorf("state: %d bytes are more than %d", len(state), MaxState)
	case again < 0:
		return fmt.Errorf("call_again: %s is negative", again)
	case elapsed < 0:
		return fmt.Errorf("call_at_elapsed: %s is negative", elapsed)
	case again > 0 && elapsed > 0:
		return errors.New("call_at_elapsed: call_again is set too")
	case limit != nil && *limit < 0:
		return fmt.Errorf("walltime_limit: %s is negative", *limit)
	}
	return nil
}

// checkEnv rejects names and values that no environment can hold.
func checkEnv(key string, env map[string]string) error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("%s: %q is not a variable's name", key, name)
		}
		if hasNUL(value) {
			return fmt.Errorf("%s.%s: holds a NUL byte", key, name)
		}
	}
	return nil
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }
