package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// These are the calls that a user other than root may have answered at a time. Further ones wait in
// line, which connsPerUser bounds, until they are answered or their caller has gone.
const (
	questionsPerUser = 4
	listsPerUser     = 1
)

// turns bounds how many calls of each user are at work.
type turns struct {
	places int // of a user

	mu    sync.Mutex
	users map[int]*line // by uid: those who have a call here
}

// line is a user's calls: those at work and those that wait.
type line struct {
	working chan struct{}
	calls   int
}

// enter waits for the peer's turn, which lasts until leave is called. enter fails if ctx ends
// before that. Root and other hosts wait for nobody.
func (t *turns) enter(ctx context.Context, p Peer) (leave func(), err error) {
	if p.root() || p.Host != "" {
		return func() {}, nil
	}
	l := t.join(p.UID)
	select {
	case l.working <- struct{}{}:
		return func() {
			<-l.working
			t.quit(p.UID)
		}, nil
	case <-ctx.Done():
		t.quit(p.UID)
		return nil, context.Cause(ctx)
	}
}

func (t *turns) join(uid int) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.users[uid]
	if l == nil {
		l = &line{working: make(chan struct{}, t.places)}
		if t.users == nil {
			t.users = map[int]*line{}
		}
		t.users[uid] = l
	}
	l.calls++
	return l
}

func (t *turns) quit(uid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.users[uid]; l.calls > 1 {
		l.calls--
	} else {
		delete(t.users, uid)
	}
}

// question makes a call wait for its user's turn, and end with its caller.
func (s *Server) question(call func(Peer, *http.Request) (any, error)) func(Peer, *http.Request) (any, error) {
	return func(peer Peer, r *http.Request) (any, error) {
		if err := checkNoBody(r); err != nil {
			return nil, err
		}
		leave, err := s.questions.enter(r.Context(), peer)
		if err != nil {
			return nil, err
		}
		defer leave()
		return call(peer, r)
	}
}

// checkNoBody refuses a question with a body. The server sees that a caller has gone only once it
// has read all that he sent.
func checkNoBody(r *http.Request) error {
	if r.ContentLength != 0 {
		return malformed(errors.New("the request has a body, want none"))
	}
	return nil
}
