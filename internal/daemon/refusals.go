package daemon

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
)

// refusedLines is how many refusals are logged per minute; the others are only counted. Anyone on
// this host can cause refusals, and must not be able to fill the disk with them.
const refusedLines = 20

// refusals counts refused calls and connections.
type refusals struct {
	log *logrus.Entry

	mu     sync.Mutex
	kinds  map[string]int64
	minute time.Time // when the minute began
	lines  int       // logged in it
	unsaid int64     // not logged in it
}

// add counts a refusal, and reports whether to log it. unsaid is the number of refusals before it
// that were not logged.
func (r *refusals) add(kind string, now time.Time) (say bool, unsaid int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds == nil {
		r.kinds = map[string]int64{}
	}
	r.kinds[kind]++
	if since := now.Sub(r.minute); r.minute.IsZero() || since >= time.Minute || since < 0 {
		r.minute, r.lines = now, 0
	}
	if r.lines++; r.lines > refusedLines {
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
