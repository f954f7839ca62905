package daemon

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
)

// refusedLines is how many refusals are logged at once and then per minute; the others are only
// counted. Anyone on this host can cause refusals, and must not be able to fill the disk with them.
const refusedLines = 20

// refusals counts refused calls and connections.
type refusals struct {
	log *logrus.Entry

	mu     sync.Mutex
	kinds  map[string]int64
	pace   *rate.Limiter
	unsaid int64 // not logged since the last line
}

func newRefusals(log *logrus.Entry) *refusals {
	return &refusals{
		log: log, kinds: map[string]int64{}, pace: rate.NewLimiter(rate.Every(time.Minute/refusedLines), refusedLines),
	}
}

// add counts a refusal, and reports whether to log it. unsaid is the number of refusals before it
// that were not logged.
func (r *refusals) add(kind string, now time.Time) (say bool, unsaid int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds[kind]++
	if !r.pace.AllowN(now, 1) {
		r.unsaid++
		return false, 0
	}
	unsaid, r.unsaid = r.unsaid, 0
	return true, unsaid
}

func (r *refusals) counts() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.kinds)
}

// note records a call or a connection that was refused because of its caller.
func (r *refusals) note(peer api.Peer, call string, err error) {
	kind := kindOf(err)
	say, unsaid := r.add(kind, time.Now())
	if !say {
		return
	}
	entry := r.log.WithField("peer", peer.String()).WithField("call", call).WithField("kind", kind)
	if unsaid > 0 {
		entry = entry.WithField("not_logged", unsaid)
	}
	entry.Warn("refused: " + strings.ReplaceAll(err.Error(), "\n", "; "))
}

// kindOf returns the kind of an error of the API.
func kindOf(err error) string {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Kind
	}
	return string(hostapi.KindOf(err))
}
