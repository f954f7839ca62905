package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// jobs is a daemon. Live jobs of alice and bob are 1.srv and 2.srv, the others have ended.
type jobs struct {
	finished int
	err      error
	measured []string
}

func job(id, owner string) *hostapi.Job {
	return &hostapi.Job{ID: id, Name: "job " + id, Owner: hostapi.Owner{User: owner, UID: 1000}, MotherSuperior: true}
}

func (d *jobs) Node(context.Context) (string, error) { return "n1", d.err }

func (d *jobs) Jobs(context.Context) ([]api.Job, error) {
	return []api.Job{
		{Job: job("1.srv", "alice"), Phase: hostapi.PhaseRunning, Launched: time.Now(), Elapsed: 75},
		{Job: job("2.srv", "bob"), Phase: hostapi.PhaseRunning}, {},
	}, d.err
}

// ended returns the report of the nth finished job. Each third is bob's, and each fifth failed.
func ended(n int) json.RawMessage {
	rec := &jobstate.Record{Job: job(fmt.Sprintf("%d.srv", n), "alice"), ExitStatus: new(int)}
	if n%3 == 0 {
		rec.Job.Owner.User = "bob"
	}
	if n%5 == 0 {
		*rec.ExitStatus = 1
	}
	rec.Launched.Wall = time.Unix(1772362800, 0)
	text, err := json.Marshal(report.FromRecord(rec, time.Unix(1772366400, 0), time.Hour))
	if err != nil {
		panic(err)
	}
	return text
}

func (d *jobs) Report(_ context.Context, id string) (json.RawMessage, error) {
	n := 0
	fmt.Sscanf(id, "%d.srv", &n)
	if d.err != nil || n < 1 || n > 2+d.finished {
		return nil, fmt.Errorf("job %s: %w", id, api.ErrNotFound)
	}
	d.measured = append(d.measured, id)
	if n <= 2 {
		rec := &jobstate.Record{Job: job(id, []string{"alice", "bob"}[n-1])}
		return json.Marshal(report.FromRecord(rec, time.Time{}, time.Minute))
	}
	return ended(n), nil
}

func (d *jobs) Finished(_ context.Context, _ report.Filter, yield func(json.RawMessage) bool) error {
	for n := 2 + d.finished; n > 2; n-- {
		if !yield(ended(n)) {
			return nil
		}
	}
	return d.err
}

// get asks a handler; more are header lines.
func get(t *testing.T, h http.Handler, target string, more ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for _, line := range more {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "frame-ancestors 'none'", "Access-Control-Allow-Origin": ""} {
		must.Equal(t, target+" "+name, want, w.Header().Get(name))
	}
	return w
}

var (
	jobID = regexp.MustCompile(`>(\d+\.srv)</a>`)
	older = regexp.MustCompile(`<a rel="next" href="([^"]*)"`)
)

// shown returns the jobs that a page has links to, in order.
func shown(w *httptest.ResponseRecorder) string {
	var ids []string
	for _, found := range jobID.FindAllStringSubmatch(w.Body.String(), -1) {
		ids = append(ids, strings.TrimSuffix(found[1], ".srv"))
	}
	return strings.Join(ids, " ")
}

// slow is a daemon whose search for finished jobs takes long.
type slow struct{ jobs }

func (slow) Finished(ctx context.Context, _ report.Filter, _ func(json.RawMessage) bool) error {
	select {
	case <-time.After(38 * time.Second):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Somebody searches on as many connections as there are. The page of another viewer does not wait
// for that, and the requests that are too many are refused.
func TestSearchesOfOneViewerHoldUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Handler(&slow{}, Access{All: true, UserHeader: "X-User"})
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		var refused atomic.Int32
		for range mostConnections {
			asking.Go(func() {
				r, w := httptest.NewRequestWithContext(ctx, http.MethodGet, "/finished", nil), httptest.NewRecorder()
				r.Header.Set("X-User", "alice")
				defer func() { recover() }() // it is broken off
				h.ServeHTTP(w, r)
				if w.Code == http.StatusTooManyRequests {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		must.Equal(t, "another's page", http.StatusOK, get(t, h, "/", "X-User: bob").Code)
		must.Equal(t, "another waits", time.Duration(0), time.Since(began))
		cancel()
		asking.Wait()
		must.Equal(t, "refused", int32(mostConnections-mostWaiting), refused.Load())
	})
}
