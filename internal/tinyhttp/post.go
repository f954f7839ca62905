// Package tinyhttp sends the daemon one request over its unix socket, with raw system calls. It is
// for programs that must start fast: importing net/http alone would cost them 0.7 ms.
package tinyhttp

import (
	"errors"
	"strconv"
	"syscall"
	"time"
)

// Request is a POST to the daemon.
type Request struct {
	Socket string
	Path   string
	Header string // additional lines, each with its CRLF
	Body   []byte
	// Sign is how long the daemon may take until its first sign of life, 100 Continue. The kernel
	// accepts connections even for a stopped daemon.
	Sign time.Duration
	// Deadline is the time by which the complete answer must have arrived. The zero time means no
	// limit.
	Deadline time.Time
	// Most is the maximum size of the answer in bytes.
	Most int
}

// Post sends the request and returns the daemon's answer, whatever its status. It fails if there is
// no daemon, or if the answer is late, cut off, too long or not HTTP. After a failure it is unknown
// whether the daemon has carried out the request.
func Post(r Request) (Answer, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return Answer{}, named("socket", err)
	}
	defer syscall.Close(fd)
	sign := time.Now().Add(r.Sign)
	if !r.Deadline.IsZero() && sign.After(r.Deadline) {
		sign = r.Deadline
	}
	if err := within(fd, syscall.SO_SNDTIMEO, sign); err != nil {
		return Answer{}, named("connect to "+r.Socket, err)
	}
	if err := connect(fd, r.Socket); err != nil {
		return Answer{}, named("connect to "+r.Socket, err)
	}
	head := "POST " + r.Path + " HTTP/1.1\r\nHost: hookhost\r\n" +
		"Connection: close\r\nExpect: 100-continue\r\n" +
		"Content-Length: " + strconv.Itoa(len(r.Body)) + "\r\n" + r.Header + "\r\n"
	if err := send(fd, append([]byte(head), r.Body...), sign); err != nil {
		return Answer{}, named("send to "+r.Socket, err)
	}
	b, err := receive(fd, r.Most, sign, r.Deadline)
	if err != nil {
		return Answer{}, named("answer of "+r.Socket, err)
	}
	return parse(b)
}

// connect waits if the daemon's queue is full, for as long as sending may take: unix(7).
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

var errTooLong = errors.New("too long")

// receive reads the answer until the daemon closes the connection. Its first part must arrive by
// sign.
func receive(fd, most int, sign, deadline time.Time) ([]byte, error) {
	b := make([]byte, 0, 4<<10)
	until := sign
	for {
		if err := within(fd, syscall.SO_RCVTIMEO, until); err != nil {
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
			until = deadline
			if b = b[:len(b)+n]; len(b) > most {
				return nil, errTooLong
			}
		}
	}
}

// within bounds the next call by the remaining time. The zero deadline means no limit.
func within(fd, option int, deadline time.Time) error {
	var limit syscall.Timeval // 0 means no limit: socket(7)
	if !deadline.IsZero() {
		left := time.Until(deadline)
		if left <= 0 {
			return syscall.EAGAIN
		}
		limit = syscall.NsecToTimeval(max(left, time.Millisecond).Nanoseconds())
	}
	return syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, option, &limit)
}

// named returns an error with its context. The kernel reports a timeout as EAGAIN.
func named(what string, err error) error {
	if err == syscall.EAGAIN {
		return errors.New(what + ": no answer in time")
	}
	return errors.New(what + ": " + err.Error())
}
