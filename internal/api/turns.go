package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// Bounds on how many calls of a user other than root the server answers at a time. Further calls
// wait, within connsPerUser, until they are answered or their caller has gone.
const (
	questionsPerUser = 2
	listsPerUser     = 1
	longestRest      = 10 * time.Second
)

// Turns bounds the calls of each caller that are being answered.
type Turns struct {
	// Places is how many calls of a caller are answered at a time.
	Places int
	// Most is how many calls of a caller there may be, including waiting ones; 0 means any number.
	Most int
	// Rest makes a call keep its place after its end for as long as it took, up to Rest. So a
	// caller's calls use at most half a cpu for each of the Places, whatever a call costs.
	Rest time.Duration

	mu      sync.Mutex
	callers map[string]*line // that have a call here
}

// line holds a caller's calls: those being answered and those waiting.
type line struct {
	working chan struct{}
	calls   int
}

// Enter waits for a turn of the caller, which lasts until leave is called. It fails with
// hostapi.KindBusy if the caller has too many calls, and if ctx ends before the turn comes.
func (t *Turns) Enter(ctx context.Context, caller string) (leave func(), err error) {
	l, err := t.join(caller)
	if err != nil {
		return nil, err
	}
	select {
	case l.working <- struct{}{}:
	case <-ctx.Done():
		t.quit(caller)
		return nil, context.Cause(ctx)
	}
	began := time.Now()
	return func() {
		time.AfterFunc(min(time.Since(began), t.Rest), func() {
			<-l.working
			t.quit(caller)
		})
	}, nil
}

func (t *Turns) join(caller string) (*line, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.callers[caller]
	if l == nil {
		l = &line{working: make(chan struct{}, t.Places)}
		if t.callers == nil {
			t.callers = map[string]*line{}
		}
		t.callers[caller] = l
	}
	if t.Most > 0 && l.calls >= t.Most {
		return nil, hostapi.Errorf(hostapi.KindBusy, "%d requests are under way, which is the limit", t.Most)
	}
	l.calls++
	return l, nil
}

func (t *Turns) quit(caller string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.callers[caller]; l.calls > 1 {
		l.calls--
	} else {
		delete(t.callers, caller)
	}
}

// turn waits for the peer's turn. Root never waits. If ctx ends or the server stops first, the
// connection is broken off. A caller that is still there asks the next server.
func (s *Server) turn(ctx context.Context, of *Turns, p Peer) (leave func()) {
	if p.root() {
		return func() {}
	}
	ctx, cancel := s.untilStop(ctx)
	defer cancel()
	leave, err := of.Enter(ctx, p.String())
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return leave
}

// question makes a handler of a call that waits for its user's turn, and ends when its caller goes
// away. The turn lasts until the answer is sent, so a user who does not read answers holds two in
// memory.
func (s *Server) question(call func(Peer, *http.Request) (any, error)) http.Handler {
	return s.streaming(anybody, func(peer Peer, w http.ResponseWriter, r *http.Request) {
		defer s.turn(r.Context(), &s.questions, peer)()
		value, err := call(peer, r)
		s.answer(w, r, value, err)
	})
}

// checkNoBody refuses a question with a body. The server notices that a caller has gone only after
// it has read everything that the caller sent.
func checkNoBody(r *http.Request) error {
	if r.ContentLength != 0 {
		return malformed(errors.New("the request has a body, want none"))
	}
	return nil
}
