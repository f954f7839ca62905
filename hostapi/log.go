package hostapi

import (
	"io"

	"github.com/sirupsen/logrus"
)

// newLogger returns a logger for a hook's standard error. Its lines are JSON with the keys of
// hclog, in which go-plugin's programs write, so the host keeps their level and fields. The host
// cuts a line of more than 64 KiB and logs it as text.
func newLogger(w io.Writer) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(w)
	log.SetFormatter(&logrus.JSONFormatter{
		TimestampFormat: "2006-01-02T15:04:05.000000Z07:00",
		FieldMap: logrus.FieldMap{
			logrus.FieldKeyLevel: "@level", logrus.FieldKeyMsg: "@message", logrus.FieldKeyTime: "@timestamp",
		},
	})
	return log
}
