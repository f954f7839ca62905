package tinyhttp

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// Answer is a complete answer of the daemon.
type Answer struct {
	Status int
	Type   string // of the content, without parameters
	Body   []byte
}

var errNotHTTP = errors.New("the daemon's answer is none of HTTP's")

var blankLine = []byte("\r\n\r\n")

// parse reads an answer that ended with the connection. The sign of life may precede it.
func parse(b []byte) (Answer, error) {
	head, body, whole := bytes.Cut(b, blankLine)
	if bytes.HasPrefix(head, []byte("HTTP/1.1 100 ")) {
		head, body, whole = bytes.Cut(body, blankLine)
	}
	lines := strings.Split(string(head), "\r\n")
	status := strings.Fields(lines[0])
	if !whole || len(status) < 2 || !strings.HasPrefix(status[0], "HTTP/1.") {
		return Answer{}, errNotHTTP
	}
	code, err := strconv.Atoi(status[1])
	if err != nil {
		return Answer{}, errNotHTTP
	}
	a := Answer{Status: code, Body: body}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.ToLower(name) {
		case "content-type":
			a.Type, _, _ = strings.Cut(value, ";")
		case "content-length":
			if n, err := strconv.Atoi(value); err != nil || n != len(body) {
				return Answer{}, errNotHTTP
			}
		case "transfer-encoding": // the daemon's answers always have a length
			return Answer{}, errNotHTTP
		}
	}
	return a, nil
}
