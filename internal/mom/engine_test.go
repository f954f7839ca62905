package mom

import (
	"bufio"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// recorder is an engine that accepts what answer does not decide, and remembers what it was sent.
type recorder struct {
	answer map[hostapi.Event]func(*hostapi.Request) (*hostapi.Outcome, error)

	mu   sync.Mutex
	sent []*hostapi.Request
}

func (r *recorder) Handle(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	r.mu.Lock()
	r.sent = append(r.sent, req)
	r.mu.Unlock()
	if req.Event == hostapi.EventEpilogue && req.Job.SessionID > 0 {
		unix.Kill(-req.Job.SessionID, unix.SIGKILL) // as a host's hooks do: nothing outlives its job
	}
	if answer := r.answer[req.Event]; answer != nil {
		return answer(req)
	}
	return &hostapi.Outcome{}, nil
}

func (r *recorder) events() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, req := range r.sent {
		names = append(names, strings.TrimPrefix(string(req.Event), "execjob_"))
	}
	return names
}

// request returns the first request of the event; nil when there was none.
func (r *recorder) request(event hostapi.Event) *hostapi.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.sent, func(req *hostapi.Request) bool { return req.Event == event })
	if i < 0 {
		return nil
	}
	return r.sent[i]
}

// always answers an event with the same outcome and error.
func always(out *hostapi.Outcome, err error) func(*hostapi.Request) (*hostapi.Outcome, error) {
	return func(*hostapi.Request) (*hostapi.Outcome, error) { return out, err }
}

func reject(message string, action hostapi.JobAction) func(*hostapi.Request) (*hostapi.Outcome, error) {
	return always(&hostapi.Outcome{Reject: true, Message: message, OnReject: action}, nil)
}

type answers = map[hostapi.Event]func(*hostapi.Request) (*hostapi.Outcome, error)

// shell is a job that runs script.
func shell(script string) Spec {
	return Spec{
		Job:     &hostapi.Job{ID: "12.srv", Name: "STDIN", Owner: hostapi.Owner{User: "root"}, MotherSuperior: true},
		Node:    "n1",
		Program: "/bin/sh",
		Args:    []string{"-c", script},
		Env:     []string{"PATH=/bin:/usr/bin"},
		Umask:   0o022,
	}
}

// pipe returns the end of a pipe for a job's output and a reader of its lines.
func pipe(t *testing.T) (*os.File, *bufio.Scanner) {
	t.Helper()
	r, w, err := os.Pipe()
	must.NoError(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	return w, bufio.NewScanner(r)
}

// outputOf runs the job and returns its standard output as well.
func outputOf(t *testing.T, engine Engine, spec Spec) (string, Result, error) {
	t.Helper()
	r, w, err := os.Pipe()
	must.NoError(t, err)
	defer r.Close()
	spec.Stdout = w
	text := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		text <- string(b)
	}()
	result, err := Run(t.Context(), engine, spec)
	w.Close()
	return <-text, result, err
}
