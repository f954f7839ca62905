package conformance

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
)

// maxLog bounds the log that a report has, in bytes.
const maxLog = 64 << 10

// log holds what the host logs about a program: the program's lines, and why it did not start.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
	cut  int // the length of the longest line that the host has cut; 0 if it cut none
}

func (l *log) entry() *logrus.Entry {
	to := logrus.New()
	to.SetOutput(l)
	to.SetFormatter(l)
	return logrus.NewEntry(to)
}

// Format implements logrus.Formatter. The host's lines about crashes are left out: the test causes
// most of them, and reports the others.
func (l *log) Format(e *logrus.Entry) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.HasPrefix(e.Message, fmt.Sprintf("hook %v: crashed: ", e.Data["hook"])) {
		return nil, nil
	}
	if length, is := e.Data["length"].(int); is { // of a line that the host has cut
		l.cut = max(l.cut, length)
	}
	line := fmt.Appendf(nil, "%s: %s", e.Level, e.Message)
	for _, key := range slices.Sorted(maps.Keys(e.Data)) {
		if key != "hook" {
			line = fmt.Appendf(line, " %s=%v", key, e.Data[key])
		}
	}
	return append(line, '\n'), nil
}

// Write adds a line. What is beyond maxLog is lost.
func (l *log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len()+len(line) <= maxLog {
		l.text.Write(line)
	}
	return len(line), nil
}

// lines returns the log, and the length of the longest line that was cut.
func (l *log) lines() (lines []string, cut int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.FieldsFunc(l.text.String(), func(r rune) bool { return r == '\n' }), l.cut
}
