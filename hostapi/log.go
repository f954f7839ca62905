package hostapi

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/sirupsen/logrus"
)

// maxLogLine limits a log line, because go-plugin reads lines of up to 64 KiB and loses level and
// fields of longer ones.
const maxLogLine = 60 << 10

// newLogger returns a logger for a hook's standard error, whose lines go-plugin understands.
func newLogger(w io.Writer) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(w)
	log.SetFormatter(wireFormat{})
	return log
}

// wireFormat writes an entry as hclog does in JSON. In other lines, go-plugin's host sees neither
// level nor fields.
type wireFormat struct{}

func (wireFormat) Format(e *logrus.Entry) ([]byte, error) {
	line := make(map[string]any, len(e.Data)+3)
	for key, value := range e.Data {
		if err, ok := value.(error); ok {
			value = err.Error()
		}
		line[key] = value
	}
	fixed := map[string]any{
		"@level":     wireLevel(e.Level),
		"@message":   e.Message,
		"@timestamp": e.Time.Format("2006-01-02T15:04:05.000000Z07:00"),
	}
	maps.Copy(line, fixed)
	b, err := json.Marshal(line)
	if err != nil { // a field that JSON cannot hold, such as a channel
		for key, value := range e.Data {
			line[key] = fmt.Sprint(value)
		}
		maps.Copy(line, fixed)
		if b, err = json.Marshal(line); err != nil {
			return nil, fmt.Errorf("log line: %w", err)
		}
	}
	if len(b) > maxLogLine {
		// A byte of a message becomes at most six in JSON.
		kept := strings.ToValidUTF8(e.Message[:min(len(e.Message), maxLogLine/8)], "")
		fixed["@message"] = fmt.Sprintf("%s... (line of %d bytes cut)", kept, len(b))
		if b, err = json.Marshal(fixed); err != nil {
			return nil, fmt.Errorf("log line: %w", err)
		}
	}
	return append(b, '\n'), nil
}

// wireLevel returns hclog's name of a level; hclog has none above error.
func wireLevel(l logrus.Level) string {
	switch l {
	case logrus.TraceLevel:
		return "trace"
	case logrus.DebugLevel:
		return "debug"
	case logrus.InfoLevel:
		return "info"
	case logrus.WarnLevel:
		return "warn"
	}
	return "error"
}
