package kernfs

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// ParseError means that a kernel file has contents which its reader does not understand.
type ParseError struct {
	File string
	Text string // empty when Err quotes it
	Err  error
}

func (e *ParseError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("parse %s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("parse %s: %q: %v", e.File, e.Text, e.Err)
}
func (e *ParseError) Unwrap() error { return e.Err }

// Uint reads a file that contains one number.
func (f *FS) Uint(name string) (uint64, error) {
	b, err := f.ReadValue(name)
	if err != nil {
		return 0, err
	}
	s := strings.TrimSpace(string(b))
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, &ParseError{File: f.Path(name), Text: s, Err: err}
	}
	return n, nil
}

// Keyed reads a flat-keyed file, such as memory.stat or cgroup.events, with one pair per line:
// "oom_kill 3".
func (f *FS) Keyed(name string) (map[string]uint64, error) {
	b, err := f.ReadValue(name)
	if err != nil {
		return nil, err
	}
	m, err := ParseKeyed(b)
	if err != nil {
		return nil, &ParseError{File: f.Path(name), Err: err}
	}
	return m, nil
}

// ParseKeyed parses a flat-keyed text. Unknown keys are fine, because kernels add some. A line that
// does not end in one unsigned number is an error.
func ParseKeyed(b []byte) (map[string]uint64, error) {
	m := make(map[string]uint64, bytes.Count(b, []byte{'\n'})+1)
	for line := range bytes.Lines(b) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		key, value, ok := bytes.Cut(line, []byte{' '})
		if !ok {
			return nil, fmt.Errorf("line %q: no value", line)
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		m[string(key)] = n
	}
	return m, nil
}
