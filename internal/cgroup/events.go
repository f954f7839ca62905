package cgroup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// events is the file that says whether a v2 cgroup has processes and whether they are frozen.
const events = "cgroup.events"

// await waits until key in d's cgroup.events has the value want. The kernel reports changes. If ctx
// ends first, await returns ctx's error. If the cgroup is removed, gone(err) is true.
func (d directory) await(ctx context.Context, key string, want uint64) error {
	w, err := d.Watch(events)
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		b, err := w.Read()
		if err != nil {
			return fmt.Errorf("read %s: %w", d.Path(events), err)
		}
		state, err := kernfs.ParseKeyed(b)
		if err != nil {
			return &kernfs.ParseError{File: d.Path(events), Text: string(b), Err: err}
		}
		if state[key] == want {
			return nil
		}
		if err := w.Wait(ctx); err != nil {
			return err
		}
	}
}

// Wait waits until the job has no processes or no cgroup. If ctx ends first, it fails with
// ErrNotEmpty and ctx's error.
func (j *Job) Wait(ctx context.Context) error {
	if d, ok := j.v2(); ok {
		if err := d.await(ctx, "populated", 0); err != nil && !gone(err) {
			return j.notEmpty(ctx, err)
		}
	}
	for {
		pids, err := j.Processes()
		if errors.Is(err, ErrNotFound) || err == nil && len(pids) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		// v1 does not send events, but a program can wait for the end of a process.
		processes, err := j.hold(pids[:min(len(pids), maxHeld())])
		if err == nil {
			processes.wait(ctx)
		}
		processes.close()
		if err != nil {
			return err
		}
		if err := sleep(ctx, time.Millisecond); err != nil { // a process may stay listed briefly after it has ended
			return j.notEmpty(ctx, err)
		}
	}
}

// notEmpty names the remaining processes if ctx has ended.
func (j *Job) notEmpty(ctx context.Context, cause error) error {
	if ctx.Err() == nil {
		return cause
	}
	pids, err := j.Processes()
	if err != nil || len(pids) == 0 {
		return errors.Join(cause, err)
	}
	return fmt.Errorf("job %s: %w: %s: %w", j.id, ErrNotEmpty, j.tree.list(pids), cause)
}

// list describes the first processes.
func (t *Tree) list(pids []int) string {
	var names []string
	for _, pid := range pids {
		if len(names) == 8 {
			names = append(names, fmt.Sprintf("and %d more", len(pids)-8))
			break
		}
		names = append(names, t.describe(pid))
	}
	return strings.Join(names, ", ")
}

// describe formats a process as `12 (comm) D`, where D means that the kernel does not release it. A
// traced process is `12 (comm) t, traced by 13 (comm) of uid 0`.
func (t *Tree) describe(pid int) string {
	p, err := proc.Read(t.proc, pid)
	if err != nil {
		return fmt.Sprintf("%d", pid)
	}
	text := fmt.Sprintf("%d (%s) %c", pid, p.Comm, p.State)
	for _, thread := range proc.Tracers(t.proc, pid) {
		by, err := proc.Read(t.proc, thread)
		if err != nil {
			text += fmt.Sprintf(", traced by thread %d", thread)
			continue
		}
		text += fmt.Sprintf(", traced by %d (%s) of uid %d", by.Leader, by.Comm, by.UID)
	}
	return text
}
