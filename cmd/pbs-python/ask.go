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

// reply is a whole answer of the daemon's.
type reply struct {
	output bool // the output file's text; else changes, for the shim
	body   []byte
}

// silence is how long the daemon may take to its first sign of life, 100 Continue. After that the
// shim asks once more, with a patience that the site sets.
const silence = time.Second

// ask hands MoM's input file to the daemon and returns its answer. ask fails when there is no
// answer by the deadline, and when there is no sign of life in time. An answer that is cut off or
// not one of the two kinds is an error too.
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

// replyOf returns what the daemon answered, if it is whole.
func replyOf(a tinyhttp.Answer) (reply, error) {
	if a.Status != 200 {
		return reply{}, errors.New("the daemon answers with status " + strconv.Itoa(a.Status))
	}
	switch a.Type {
	case typeOutput:
		// MoM takes a file without a verdict for an accept; this one ends with a whole line and has
		// one.
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
