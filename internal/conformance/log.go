package conformance

import (
	"bytes"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
)

// maxLog bounds the log that a report has, in bytes.
const maxLog = 64 << 10

// log holds what the host logs during a test: the program's lines and its crashes. The zero value
// is empty.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
	cut  int // the length of the longest line that the host has cut; 0 if it cut none
}

func (l *log) entry() *logrus.Entry {
	to := logrus.New()
	to.SetOutput(l)
	to.SetFormatter(&logrus.TextFormatter{DisableColors: true, DisableTimestamp: true})
	to.AddHook(l)
	return logrus.NewEntry(to)
}

// Levels implements logrus.Hook.
func (l *log) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements logrus.Hook. The host logs the length of a line that it has cut.
func (l *log) Fire(e *logrus.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if length, is := e.Data["length"].(int); is {
		l.cut = max(l.cut, length)
	}
	return nil
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
