package main

import (
	"bytes"
	"errors"
	"strconv"
	"syscall"
	"time"

	"github.com/hookhost/hookhost/internal/tinyhttp"
)

// The content types of an answer (internal/api).
const (
	typeOutput  = "application/x-pbs-hook-output"
	typeChanges = "application/x-hookhost-changes"
)

// reply is a complete answer of the daemon.
type reply struct {
	output bool // the output file's text; otherwise changes, for the shim
	body   []byte
}

// silence is how long the daemon may take until its first sign of life, 100 Continue. After that
// the shim asks again, and waits as long as the site has configured.
const silence = time.Second

// ask passes MoM's input file to the daemon and returns its answer. It fails if there is no answer
// by the deadline, or no sign of life in time. An answer that is cut off or of another kind is an
// error too.
func ask(socket string, in []byte, deadline time.Time) (reply, error) {
	a, err := tinyhttp.Post(tinyhttp.Request{
		Socket: socket,
		Path:   "/v1/pbs/event",
		Header: "Content-Type: application/x-pbs-hook-input\r\nAccept: " + typeOutput +
			"\r\nHookhost-Parent: " + strconv.Itoa(syscall.Getppid()) + "\r\n",
		Body:     in,
		Sign:     silence,
		Deadline: deadline,
		Most:     2 * maxInput,
	})
	if err != nil {
		return reply{}, err
	}
	return replyOf(a)
}

var errGarbage = errors.New("the daemon's answer is not one")

// replyOf returns the daemon's answer if it is complete.
func replyOf(a tinyhttp.Answer) (reply, error) {
	if a.Status != 200 {
		return reply{}, errors.New("the daemon answers with status " + strconv.Itoa(a.Status))
	}
	switch a.Type {
	case typeOutput:
		// MoM takes a file without a verdict as an accept. This one has a verdict and ends with a
		// complete line.
		text := append([]byte("\n"), a.Body...)
		if bytes.HasSuffix(text, []byte("\n")) && bytes.Contains(text, []byte("\npbs.event().accept=")) {
			return reply{output: true, body: a.Body}, nil
		}
	case typeChanges:
		if bytes.HasPrefix(a.Body, []byte("hookhost/1\x00")) && bytes.HasSuffix(a.Body, []byte("\x00end\x00")) {
			return reply{body: a.Body}, nil
		}
	}
	return reply{}, errGarbage
}
