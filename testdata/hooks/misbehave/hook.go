package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
)

type hook struct {
	config
	name string
	log  *logrus.Entry

	mu    sync.Mutex
	calls map[string]int // by job
}

// act writes the call down and does what the configuration says for its event.
func (h *hook) act(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if err := h.note(req.Event, jobsOf(req)...); err != nil {
		return nil, err
	}
	if req.Event != h.Event && (h.Mode != "attach-env" || req.Event != hostapi.EventResize) {
		return nil, nil
	}
	if h.Once != "" {
		f, err := os.OpenFile(h.Once, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		f.Close()
	}
	if out, err, done := h.misbehave(ctx, req); done {
		return out, err
	}
	return h.answer(req)
}

// jobsOf returns the jobs that the event is about; "-" for all.
func jobsOf(req *hostapi.Request) []string {
	switch {
	case req.Job != nil:
		return []string{req.Job.ID}
	case req.Partial:
		return slices.Sorted(maps.Keys(req.JobList))
	}
	return []string{"-"}
}

// note counts the call for each job and appends it to the log file in one write.
func (h *hook) note(e hostapi.Event, jobs ...string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines strings.Builder
	for _, job := range jobs {
		h.calls[job]++
		fmt.Fprintf(&lines, "%s %s %d\n", e, job, h.calls[job])
	}
	if h.Log == "" {
		return nil
	}
	f, err := os.OpenFile(h.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(lines.String())
	return errors.Join(err, f.Close())
}

// misbehave does what a hook must not do. done is true in the modes that misbehave knows, if it
// returns at all.
func (h *hook) misbehave(ctx context.Context, req *hostapi.Request) (out *hostapi.Outcome, err error, done bool) {
	switch h.Mode {
	case "exit":
		os.Exit(4)
	case "kill":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "panic":
		panic("misbehave: " + h.Value)
	case "panic-aside":
		go func() { panic("misbehave: " + h.Value) }()
		select {}
	case "hang":
		select {}
	case "wait":
		<-ctx.Done()
		return nil, fmt.Errorf("wait: %w", ctx.Err()), true
	case "long-line":
		// Not through the logger, which would keep it short.
		syscall.Write(2, []byte(strings.Repeat("x", 100_000)+"\n"))
		return nil, nil, true
	case "print":
		fmt.Println("printed on stdout")
		fmt.Fprintln(os.Stderr, "printed on stderr")
		syscall.Write(2, []byte(`{"@level":"info","@message":7}`+"\n"))
		fmt.Fprint(os.Stderr, "printed without a line feed")
		return nil, nil, true
	case "mkdir":
		return nil, os.Mkdir(h.Value+req.Job.ID, 0o755), true
	case "forget":
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.calls[req.Job.ID] < 2 {
			return nil, errors.New("the job is not known"), true
		}
		return nil, nil, true
	case "huge":
		length, err := strconv.Atoi(h.Value)
		return &hostapi.Outcome{Reject: true, Message: strings.Repeat("x", length)}, err, true
	case "misfit":
		name := "/bin/false"
		return &hostapi.Outcome{Progname: &name, OnReject: "explode"}, nil, true
	case "child":
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			return nil, err, true
		}
		return nil, os.WriteFile(h.Value, []byte(strconv.Itoa(cmd.Process.Pid)), 0o644), true
	}
	return nil, nil, false
}

// answer does what a hook may do.
func (h *hook) answer(req *hostapi.Request) (*hostapi.Outcome, error) {
	key, value, _ := strings.Cut(h.Value, "=")
	switch h.Mode {
	case "reject":
		return &hostapi.Outcome{Reject: true, Message: h.Value}, nil
	case "rerun":
		return &hostapi.Outcome{Reject: true, Message: h.Value, OnReject: hostapi.JobActionRerun}, nil
	case "error":
		return nil, hostapi.Errorf(hostapi.Kind(h.Value), "error of kind %s", h.Value)
	case "partial":
		out := &hostapi.Outcome{ResourcesUsed: hostapi.Resources{"mem": "10kb"}}
		return out, hostapi.Errorf(hostapi.KindNode, "counted only in part")
	case "env":
		return &hostapi.Outcome{SetEnv: map[string]string{key: value}}, nil
	case "attach-env":
		return &hostapi.Outcome{AttachEnv: map[string]string{h.Value: req.Job.ResourceList["ncpus"]}}, nil
	case "say":
		out := new(hostapi.Outcome)
		return out, json.Unmarshal([]byte(h.Value), out)
	case "used":
		return &hostapi.Outcome{ResourcesUsed: hostapi.Resources{key: value}}, nil
	case "log":
		for _, level := range []logrus.Level{logrus.TraceLevel, logrus.DebugLevel, logrus.InfoLevel, logrus.WarnLevel,
			logrus.ErrorLevel} {
			h.log.WithField("value", h.Value).Log(level, "a line of level ", level)
		}
	case "state":
		return countInState(req.Job)
	case "again":
		d, err := time.ParseDuration(h.Value)
		return &hostapi.Outcome{CallAgain: d}, err
	case "elapsed":
		return h.atElapsed(req)
	}
	return nil, nil
}

// atElapsed asks for a call when each job of the event has run for value.
func (h *hook) atElapsed(req *hostapi.Request) (*hostapi.Outcome, error) {
	d, err := time.ParseDuration(h.Value)
	if err != nil || req.Event.ForJob() {
		return &hostapi.Outcome{CallAtElapsed: d, WalltimeLimit: &d}, err
	}
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{}}
	for id, j := range req.JobList {
		out.Jobs[id] = &hostapi.JobUpdate{CallAtElapsed: j.Elapsed + d}
	}
	return out, nil
}

// countInState keeps the number of calls, and no memory of its own.
func countInState(job *hostapi.Job) (*hostapi.Outcome, error) {
	var state struct {
		Calls int `json:"calls"`
	}
	if job.State != nil {
		if err := json.Unmarshal(job.State, &state); err != nil {
			return nil, fmt.Errorf("state: %w", err)
		}
	}
	state.Calls++
	b, err := json.Marshal(state)
	if err != nil {
		return nil, err
	}
	return &hostapi.Outcome{State: b, Notes: []string{fmt.Sprintf("%d calls", state.Calls)}}, nil
}
