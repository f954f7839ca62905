package main

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// ask hands MoM's input file to the daemon and returns its answer. It fails when there is none by
// the deadline, when there is no sign of life in time, and when the answer is cut off or not one of
// the two kinds. The daemon closes the connection behind its answer.
func ask(socket string, in []byte, deadline time.Time) (reply, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return reply{}, errors.New("socket: " + err.Error())
	}
	defer syscall.Close(fd)
	sign := time.Now().Add(silence)
	if sign.After(deadline) {
		sign = deadline
	}
	if err := within(fd, syscall.SO_SNDTIMEO, sign); err != nil {
		return reply{}, err
	}
	if err := connect(fd, socket); err != nil {
		return reply{}, named("connect to "+socket, err)
	}
	head := "POST /v1/pbs/event HTTP/1.1\r\nHost: hookhost\r\nConnection: close\r\nExpect: 100-continue\r\n" +
		"Content-Type: application/x-pbs-hook-input\r\nAccept: " + typeOutput +
		"\r\nHookhost-Parent: " + strconv.Itoa(syscall.Getppid()) + "\r\nContent-Length: " + strconv.Itoa(len(in)) + "\r\n\r\n"
	if err := send(fd, append([]byte(head), in...), sign); err != nil {
		return reply{}, named("send to "+socket, err)
	}
	b, err := receive(fd, sign, deadline)
	if err != nil {
		return reply{}, named("answer of "+socket, err)
	}
	return parseReply(b)
}

// connect waits where the daemon's queue is full, as long as sending may take: unix(7).
func connect(fd int, socket string) error {
	for {
		err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket})
		if err != syscall.EINTR {
			return err
		}
	}
}

func send(fd int, b []byte, deadline time.Time) error {
	for len(b) > 0 {
		if err := within(fd, syscall.SO_SNDTIMEO, deadline); err != nil {
			return err
		}
		n, err := syscall.SendmsgN(fd, b, nil, nil, syscall.MSG_NOSIGNAL)
		if err != nil && err != syscall.EINTR {
			return err
		}
		b = b[max(n, 0):]
	}
	return nil
}

// receive reads the answer to its end. Its first part has to come by sign.
func receive(fd int, sign, deadline time.Time) ([]byte, error) {
	return readAll(fd, 2*maxInput, func() error {
		until := sign
		sign = deadline
		return within(fd, syscall.SO_RCVTIMEO, until)
	})
}

var errTooLong = errors.New("too long")

// readAll reads at most so many bytes, up to the end. before is asked before each part.
func readAll(fd, most int, before func() error) ([]byte, error) {
	b := make([]byte, 0, 16<<10)
	for {
		if err := before(); err != nil {
			return nil, err
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := syscall.Read(fd, b[len(b):cap(b)])
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return nil, err
		case n == 0:
			return b, nil
		default:
			if b = b[:len(b)+n]; len(b) > most {
				return nil, errTooLong
			}
		}
	}
}

// within bounds the next call by what is left of the time.
func within(fd, option int, deadline time.Time) error {
	left := time.Until(deadline)
	if left <= 0 {
		return syscall.EAGAIN
	}
	tv := syscall.NsecToTimeval(max(left, time.Millisecond).Nanoseconds())
	return syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, option, &tv)
}

// named words an error for the log; EAGAIN is what the kernel calls a time that is over.
func named(what string, err error) error {
	if err == syscall.EAGAIN {
		return errors.New(what + ": no answer in time")
	}
	return errors.New(what + ": " + err.Error())
}

var errGarbage = errors.New("the daemon's answer is not one")

// parseReply reads a whole answer of HTTP's, up to its end.
func parseReply(b []byte) (reply, error) {
	head, body, found := strings.Cut(string(b), "\r\n\r\n")
	if strings.HasPrefix(head, "HTTP/1.1 100 ") { // the sign of life
		head, body, found = strings.Cut(body, "\r\n\r\n")
	}
	if !found || !strings.HasPrefix(head, "HTTP/1.") {
		return reply{}, errGarbage
	}
	lines := strings.Split(head, "\r\n")
	status := strings.Fields(lines[0])
	if len(status) < 2 {
		return reply{}, errGarbage
	}
	if status[1] != "200" {
		return reply{}, errors.New("the daemon answers with status " + status[1])
	}
	kind, length := "", -1
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.ToLower(name) {
		case "content-type":
			kind, _, _ = strings.Cut(value, ";")
		case "content-length":
			n, err := strconv.Atoi(value)
			if err != nil {
				return reply{}, errGarbage
			}
			length = n
		case "transfer-encoding":
			return reply{}, errGarbage // not for HTTP/1.0
		}
	}
	if length >= 0 && length != len(body) || body == "" {
		return reply{}, errGarbage
	}
	switch kind {
	case typeOutput:
		// MoM takes a file without a verdict for an accept; this one ends with a whole line and has one.
		if !strings.HasSuffix(body, "\n") || !strings.Contains("\n"+body, "\npbs.event().accept=") {
			return reply{}, errGarbage
		}
		return reply{output: true, body: []byte(body)}, nil
	case typeChanges:
		if !strings.HasPrefix(body, "hookhost/1\x00") || !strings.HasSuffix(body, "\x00end\x00") {
			return reply{}, errGarbage
		}
		return reply{body: []byte(body)}, nil
	}
	return reply{}, errGarbage
}
