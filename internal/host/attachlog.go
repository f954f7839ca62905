package host

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"
)

// Bounds on log lines about attaches and adoptions: a burst of twenty, then twenty a minute. Users
// cause these lines and must not be able to fill the disk with them. The job's report counts all of
// its attaches.
const (
	attachBurst = 20
	attachEvery = 3 * time.Second
)

// attachLog counts the lines that were not logged.
type attachLog struct {
	mu     sync.Mutex
	pace   *rate.Limiter
	unsaid int
}

func newAttachLog() *attachLog {
	return &attachLog{pace: rate.NewLimiter(rate.Every(attachEvery), attachBurst)}
}

// next reports whether to log one more line. The entry says how many lines before it were dropped.
func (l *attachLog) next(entry *logrus.Entry) (*logrus.Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.pace.Allow() {
		l.unsaid++
		return nil, false
	}
	if l.unsaid > 0 {
		entry = entry.WithField("not_logged", l.unsaid)
	}
	l.unsaid = 0
	return entry, true
}
