package plugin

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"sync"
	"unicode"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
)

// Bounds on a hook's output to the host's log.
const (
	maxLine    = 64 << 10 // a longer line is cut: it is no longer JSON, so it is logged as plain text
	maxMessage = 4 << 10
)

// lines turns a hook's output into log entries, one per line. hclog's JSON keeps its level and
// fields; the trace of a panic is an error; anything else is plain text of level plain.
type lines struct {
	log   *logrus.Entry
	plain logrus.Level

	mu      sync.Mutex
	line    []byte
	dropped int    // bytes of the line beyond maxLine
	over    bool   // the program has ended
	words   string // the first line of a panic
	last    string // the last line that was not empty
}

// Write accepts any part of the output, and never fails.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		part, rest, ended := bytes.Cut(b, []byte("\n"))
		room := min(len(part), maxLine-len(l.line))
		l.line = append(l.line, part[:room]...)
		l.dropped += len(part) - room
		if ended {
			l.emit()
		}
		b = rest
	}
	if l.over && len(l.line) > 0 {
		l.emit()
	}
	return n, nil
}

// end logs the last line if it has no line feed. The program has ended, but some of its output may
// still come.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if len(l.line) > 0 {
		l.emit()
	}
}

// lastWords returns the message of the panic that ended the program, or "" if it did not panic.
func (l *lines) lastWords() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.words
}

// lastLine returns the last line of output, cut, or "" if there was none.
func (l *lines) lastLine() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *lines) emit() {
	line, dropped := l.line, l.dropped
	l.line, l.dropped = l.line[:0], 0
	if cap(l.line) > maxMessage {
		l.line = nil
	}
	level, message, fields := l.parse(line, dropped)
	if message != "" {
		l.last = hostapi.Clip(message, 200)
	}
	if !l.log.Logger.IsLevelEnabled(level) || message == "" && len(fields) == 0 {
		return
	}
	entry := l.log
	if total := len(message) + dropped; total > maxMessage {
		message, fields = hostapi.Clip(message, maxMessage), withField(fields, "length", total)
	}
	if len(fields) > 0 {
		// The host's fields take precedence: a hook cannot pose as another.
		maps.Copy(fields, l.log.Data)
		entry = l.log.WithFields(fields)
	}
	entry.Log(level, message)
}

func (l *lines) parse(line []byte, dropped int) (logrus.Level, string, logrus.Fields) {
	if dropped == 0 && len(line) > 0 && line[0] == '{' {
		if level, message, fields, ok := parseHclog(line); ok {
			return level, message, fields
		}
	}
	text := strings.ToValidUTF8(strings.TrimRight(string(line), "\r "), "?")
	if l.words == "" && (strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ")) {
		l.words = hostapi.Clip(text, 400)
	}
	if l.words != "" {
		return logrus.ErrorLevel, text, nil
	}
	return l.plain, text, nil
}

// parseHclog reads a line of hclog's JSON format, in which go-plugin's programs write their log.
func parseHclog(line []byte) (level logrus.Level, message string, fields logrus.Fields, ok bool) {
	if json.Unmarshal(line, &fields) != nil {
		return 0, "", nil, false
	}
	name, _ := fields["@level"].(string)
	message, isText := fields["@message"].(string)
	level, err := logrus.ParseLevel(name)
	if err != nil || !isText {
		return 0, "", nil, false
	}
	// The worst level for a hook is error: fatal and panic would end the host.
	level = max(level, logrus.ErrorLevel)
	maps.DeleteFunc(fields, func(k string, v any) bool {
		if s, ok := v.(string); ok {
			fields[k] = hostapi.Clip(s, maxMessage)
		}
		return strings.HasPrefix(k, "@") ||
			strings.ContainsFunc(k, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) })
	})
	return level, message, fields, true
}

func withField(f logrus.Fields, key string, value any) logrus.Fields {
	if f == nil {
		f = logrus.Fields{}
	}
	f[key] = value
	return f
}
