package daemon

import (
	"context"
	"encoding/json"
	"os/user"
	"slices"
	"strconv"
	"time"

	"github.com/hookhost/hookhost/internal/ledger"
	"github.com/hookhost/hookhost/internal/report"
)

// FindReports calls yield with the reports that a filter chooses of a ledger and of live jobs, in
// the filter's order, until it returns false. may admits owners, and takes -1 for one who is not
// known. live are matching jobs as they were before the call, those that began last first. A job
// that has ended since is in the list once. pause is called before each report.
func FindReports(ctx context.Context, l *ledger.Ledger, live []*report.Report, f report.Filter,
	may func(uid int) bool, pause func(), yield func(json.RawMessage) bool) error {
	s := &search{filter: f, live: live, left: f.Limit, pause: pause, yield: yield}
	query := ledger.Query{Of: owners(f.User, may), Since: f.Since, Newest: f.Limit > 0}
	if query.Newest && !s.yieldLive() {
		return nil
	}
	var err error
	if f.Finished() { // a large ledger takes most of a minute
		err = l.All(ctx, query, func(e ledger.Entry) bool { return ctx.Err() == nil && s.finished(e) })
	}
	if !query.Newest && !s.stopped {
		slices.Reverse(s.live)
		s.yieldLive()
	}
	return err
}

// search is a question for reports under way.
type search struct {
	filter  report.Filter
	live    []*report.Report
	left    int // how many more may be yielded, of a filter with a limit
	yield   func(json.RawMessage) bool
	stopped bool
	pause   func()
}

// pass yields a report, and reports whether there may be another.
func (s *search) pass(text json.RawMessage) bool {
	s.left--
	s.stopped = !s.yield(text) || s.left == 0
	return !s.stopped
}

func (s *search) yieldLive() bool {
	for _, r := range s.live {
		text, err := json.Marshal(r)
		if err == nil && !s.pass(text) {
			return false
		}
	}
	return true
}

// finished yields the report of an entry, if the filter chooses it. A report that cannot be read is
// yielded too: the caller is to know of it.
func (s *search) finished(e ledger.Entry) bool {
	s.pause()
	if s.filter.EveryFinished() && !slices.ContainsFunc(s.live, func(l *report.Report) bool { return l.Job == e.Job }) {
		return s.pass(e.Report)
	}
	r, err := report.FromArchive(e.Report)
	if err == nil && (!s.filter.Matches(r) || s.isLive(r)) {
		return true
	}
	return s.pass(e.Report)
}

// pauses makes a search of a daemon sleep for as long as it has worked. A thread that works all the
// time waits for its cpu on a busy node, and events would wait with it.
type pauses struct{ last time.Time }

func (p *pauses) pause() {
	const atLeast, atMost = time.Millisecond, 10 * time.Millisecond
	if worked := time.Since(p.last); worked >= atLeast {
		time.Sleep(min(worked, atMost))
		p.last = time.Now()
	}
}

func (s *search) isLive(r *report.Report) bool {
	return slices.ContainsFunc(s.live, func(l *report.Report) bool {
		return l.Job == r.Job && l.Began().Truncate(time.Millisecond).Equal(r.Began().Truncate(time.Millisecond))
	})
}

// owners returns which of the owners that may admits can be the user of that name or number. The
// ledger has numbers. An owner without one, and a user whom this node does not know, are told by
// the report.
func owners(name string, may func(uid int) bool) func(uid int) bool {
	if name == "" {
		return may
	}
	wanted, err := strconv.Atoi(name)
	if err != nil {
		u, err := user.Lookup(name)
		if err != nil {
			return may
		}
		if wanted, err = strconv.Atoi(u.Uid); err != nil {
			return may
		}
	}
	return func(uid int) bool { return may(uid) && (uid == wanted || uid < 0) }
}
