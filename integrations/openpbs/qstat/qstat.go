// Package qstat asks the PBS server about jobs, as PBS's users do.
package qstat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/pbs"
)

// ErrNone means that this host does not have the program.
var ErrNone = errors.New("no qstat here")

// limit bounds how long qstat may take. It retries a server that is down by itself.
const limit = time.Minute

// Qstat is PBS's program that shows jobs. The server decides who sees what.
type Qstat struct{ program string }

// Find finds the program: the one in PATH, else the one of PBS_EXEC in PBS's configuration. It
// fails with ErrNone if there is none.
func Find(conf func() (map[string]string, error)) (Qstat, error) {
	if path, err := exec.LookPath("qstat"); err == nil {
		return Qstat{path}, nil
	}
	settings, err := conf()
	if err != nil {
		return Qstat{}, err
	}
	path := filepath.Join(pbs.Exec(settings), "bin/qstat")
	if _, err := os.Stat(path); err != nil {
		return Qstat{}, fmt.Errorf("%w (PATH, %s)", ErrNone, path)
	}
	return Qstat{path}, nil
}

// Job returns what the server knows about a job, live or finished. An error says what to do about
// it, if anything.
func (q Qstat) Job(ctx context.Context, id string) (*pbs.JobStatus, error) {
	jobs, err := q.jobs(ctx, id)
	if err != nil {
		return nil, err
	}
	return &jobs[0], nil
}

// Subjobs is Job for the subjobs of a job array.
func (q Qstat) Subjobs(ctx context.Context, array string) ([]pbs.JobStatus, error) {
	jobs, err := q.jobs(ctx, array, "-t")
	return slices.DeleteFunc(jobs, func(s pbs.JobStatus) bool { return !pbs.InArray(array, s.ID) }), err
}

// jobs returns at least one job, or an error.
func (q Qstat) jobs(ctx context.Context, id string, options ...string) ([]pbs.JobStatus, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer in %v", limit))
	defer cancel()
	options = append(options, "-f", "-F", "json", id)
	text, complaint, err := q.run(ctx, append([]string{"-x"}, options...)...)
	history := !strings.Contains(complaint, "job history")
	if !history { // qstat -x then shows no job at all
		text, complaint, err = q.run(ctx, options...)
	}
	var jobs []pbs.JobStatus
	if err == nil {
		jobs, err = pbs.ParseQstat(text, time.UTC)
	}
	switch unknown := strings.Contains(complaint, "Unknown Job Id"); {
	case err == nil && len(jobs) > 0:
		return jobs, nil
	case ctx.Err() != nil:
		err = fmt.Errorf("qstat: %w", context.Cause(ctx))
	case unknown && history:
		err = errors.New("PBS does not have it: it keeps finished jobs for job_history_duration; " +
			"report --accounting reads about older ones")
	case unknown:
		err = errors.New("PBS does not have it, and keeps no finished jobs: " +
			"qmgr -c 'set server job_history_enable = true' makes it keep those that end from now on")
	case complaint != "":
		err = errors.New(complaint)
	case err != nil:
		err = fmt.Errorf("qstat: %w", err)
	default:
		err = errors.New("qstat shows no job")
	}
	return nil, fmt.Errorf("job %s: %w", id, err)
}

// run returns the output of qstat, with times in UTC, and its messages as one line.
func (q Qstat) run(ctx context.Context, args ...string) (text []byte, complaint string, err error) {
	cmd := exec.CommandContext(ctx, q.program, args...)
	cmd.Env = append(cmd.Environ(), "TZ=UTC")
	cmd.WaitDelay = time.Second
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err = cmd.Run()
	return out.Bytes(), strings.Join(strings.Fields(complaints.String()), " "), err
}
