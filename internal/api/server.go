// Package api connects processes of this machine to the host: HTTP and JSON on a unix socket.
//
//	POST /v1/events/{event}      root         Request in, Outcome out
//	POST /v1/pbs/event           root         MoM's input file in, changes out: see MoM
//	POST /v1/attach              root, owner  {"job","pid"} in, Attached out
//	POST /v1/login               root         Login in, Session out
//	GET  /v1/jobs                everyone     {"jobs":[...]} that the caller may see
//	POST /v1/jobs                root         {"id"}: the next id of this host's own jobs
//	GET  /v1/jobs/{id}           root, owner  Job
//	GET  /v1/jobs/mine           root, owner  the job that the caller is a process of
//	GET  /v1/jobs/{id}/report    root, owner  the usage report
//	GET  /v1/reports             everyone     one report per line, oldest first
//	GET  /v1/jobs/{id}/processes root, owner  its processes: JobProcesses
//	GET  /v1/present             everyone     PresentJobs that the caller may see
//	GET  /v1/node                everyone     NodeInfo; hooks for root only
//	POST /v1/reload              root
//	POST /v1/doctor              root         runs doctor on this node, without waiting for it
//	GET  /metrics                root         text, for Prometheus
//
// A user's questions (GET), and attaches that name no job, are answered two at a time, and the rest
// wait: see Turns. Questions have no body. If some reports of a list can no longer be read, the
// list ends with the trailer Hookhost-Damaged.
//
// A rejected event is an answer, not an error: 200 with "reject": true. Errors are {"error","kind"}
// with a status.
//
// The kernel identifies the caller; the request does not. An unknown caller may do nothing. For a
// job that the caller may not see, the answer is the same as for a job that never existed.
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Sizes of request bodies. An event carries a job's whole environment.
const (
	maxEvent = 8 << 20
	maxSmall = 64 << 10
)

// timeouts bound how long a caller may keep the host waiting. None bounds an event, whose hooks
// have alarms.
type timeouts struct{ header, request, idle, answer time.Duration }

// Server serves the API. Set the exported fields before Serve.
type Server struct {
	Events    Events
	Jobs      Jobs
	Node      Node
	Processes Processes
	Reports   Reports
	Meter     Meter
	Metrics   http.Handler // answers /metrics
	MoM       MoM          // answers the hook of pbs_mom
	Logins    Logins
	Doctor    Doctor
	// Host is this host as exec_vnode names it.
	Host string
	// Refused, if set, is called with each call that was refused because of its caller. Several
	// goroutines may call it at the same time.
	Refused func(peer Peer, call string, err error)
	// ErrorLog logs errors of connections; nil means the log package's standard logger.
	ErrorLog *log.Logger

	timeouts  timeouts
	questions Turns
	lists     Turns
	http      *http.Server
	stopping  context.Context // ends with Shutdown: streams end with it
	stop      context.CancelFunc
}

// NewServer returns a server of these backends.
func NewServer(events Events, jobs Jobs, node Node, processes Processes) *Server {
	s := &Server{
		Events: events, Jobs: jobs, Node: node, Processes: processes,
		questions: Turns{Places: questionsPerUser, Rest: longestRest}, lists: Turns{Places: listsPerUser},
		timeouts: timeouts{header: 5 * time.Second, request: 30 * time.Second, idle: time.Minute,
			answer: 10 * time.Second},
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.http = &http.Server{Handler: s.routes(), ConnContext: withPeer, MaxHeaderBytes: 16 << 10}
	return s
}

// Serve answers on l, a Listener, until Shutdown, then returns nil. Serve closes l. On any other
// listener all callers are unknown and may do nothing.
func (s *Server) Serve(l net.Listener) error {
	s.http.ErrorLog = s.ErrorLog
	s.http.ReadHeaderTimeout, s.http.ReadTimeout = s.timeouts.header, s.timeouts.request
	s.http.IdleTimeout = s.timeouts.idle
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown accepts no further request and waits for those begun, until ctx is done. Closing a
// connection may take longer: see refuseFiles.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	done := make(chan error, 1)
	go func() { done <- s.http.Shutdown(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("stop serving: requests are under way: %w", ctx.Err())
	}
}

func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*peerConn); ok {
		return context.WithValue(ctx, peerKey{}, c.peer)
	}
	return ctx
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/events/{event}", s.endpoint(rootOnly, maxEvent, s.event))
	mux.Handle("POST /v1/pbs/event", s.endpoint(rootOnly, maxEvent, s.momEvent))
	mux.Handle("POST /v1/attach", s.endpoint(anybody, maxSmall, s.attach))
	mux.Handle("POST /v1/login", s.endpoint(rootOnly, maxEvent, s.login)) // a user may have a thousand groups
	mux.Handle("GET /v1/jobs", s.question(s.jobs))
	mux.Handle("POST /v1/jobs", s.endpoint(rootOnly, maxSmall, s.newJobID))
	mux.Handle("GET /v1/jobs/{id}", s.question(s.job))
	mux.Handle("GET /v1/jobs/mine", s.question(s.mine))
	mux.Handle("GET /v1/jobs/{id}/report", s.question(s.report))
	mux.Handle("GET /v1/jobs/{id}/processes", s.question(s.processesOf))
	mux.Handle("GET /v1/present", s.question(s.present))
	mux.Handle("GET /v1/reports", s.streaming(anybody, s.reports))
	mux.Handle("GET /v1/node", s.question(s.node))
	mux.Handle("POST /v1/reload", s.endpoint(rootOnly, maxSmall, s.reload))
	mux.Handle("POST /v1/doctor", s.endpoint(rootOnly, maxSmall, s.examine))
	mux.Handle("GET /metrics", s.streaming(rootOnly, s.metrics))
	mux.Handle("/", s.endpoint(anybody, maxSmall, func(_ Peer, r *http.Request) (any, error) { return nil, noCall(r) }))
	return mux
}

// metrics answers a scrape. It is refused to users, because metrics reveal other users' activity.
func (s *Server) metrics(_ Peer, w http.ResponseWriter, r *http.Request) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.timeouts.answer))
	ctx, cancel := s.untilStop(r.Context())
	defer cancel()
	s.Metrics.ServeHTTP(w, r.WithContext(ctx))
}

func noCall(r *http.Request) error {
	return &Error{Status: http.StatusNotFound, Kind: KindNotFound,
		Message: fmt.Sprintf("%s %s: no such call", r.Method, r.URL.Path)}
}

// endpoint makes a handler of a call. It checks access before it reads a byte of the body, and
// answers with the call's value or error as JSON.
func (s *Server) endpoint(may access, limit int64, call func(Peer, *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.sign(w, r)
		var value any
		peer, err := admit(r, may)
		if err == nil {
			err = s.read(w, r, limit)
		}
		if err == nil {
			value, err = call(peer, r)
		}
		s.answer(w, r, value, err)
	})
}

// streaming makes a handler of a call that writes its answer itself. The context of its request
// ends when the caller goes away.
func (s *Server) streaming(may access, call func(Peer, http.ResponseWriter, *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.sign(w, r)
		peer, err := admit(r, may)
		if err == nil {
			err = checkNoBody(r)
		}
		if err != nil {
			s.answer(w, r, nil, err)
			return
		}
		// The server's own deadline is for the request. While the answer is being sent, the
		// connection is read to notice if the caller goes away.
		http.NewResponseController(w).SetReadDeadline(time.Time{})
		call(peer, w, r)
	})
}

// untilStop returns a context that ends with ctx, with Shutdown and with cancel.
func (s *Server) untilStop(ctx context.Context) (until context.Context, cancel func()) {
	until, end := context.WithCancel(ctx)
	forget := context.AfterFunc(s.stopping, end)
	return until, func() { forget(); end() }
}

// sign sends a sign of life to a caller that asks for it by Expect: 100-continue. Without it, a
// stopped daemon would look alive, because the kernel accepts calls for it. If the caller is gone,
// the write fails and ends the request's context.
func (s *Server) sign(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if r.Header.Get("Expect") != "" && r.ProtoAtLeast(1, 1) {
		control.SetWriteDeadline(time.Now().Add(s.timeouts.answer))
		w.WriteHeader(http.StatusContinue)
	}
	// The deadline of the connection's previous answer must not apply either.
	control.SetWriteDeadline(time.Time{})
}

// read reads the request's body, so that its context ends when the caller goes away. The server's
// own deadline is for the request: during an answer, it would look like a caller that has gone.
func (s *Server) read(w http.ResponseWriter, r *http.Request, limit int64) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return malformed(fmt.Errorf("read request: %w", err))
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, value any, err error) {
	status := http.StatusOK
	if err != nil {
		e := errorOf(err)
		status, value = e.Status, e
		if peer, ok := peerFrom(r.Context()); ok && e.isRefusal() && s.Refused != nil {
			s.Refused(peer, r.Method+" "+r.URL.Path, e)
		}
	}
	body, contentType := encode(value)
	if body == nil {
		status = http.StatusInternalServerError
		body = []byte(`{"error":"encode answer: not JSON","kind":"internal"}` + "\n")
	}
	// The deadline is set only now: an event's duration is limited by its alarm, not by the
	// connection.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.timeouts.answer))
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body))) // pbs_mom's hook does not read chunks
	w.WriteHeader(status)
	w.Write(body)
}

// encode returns an answer's body and its type: JSON, except for MoM's hook. The body is nil for a
// value that cannot be encoded.
func encode(value any) (body []byte, contentType string) {
	switch answer, isMoM := value.(MoMAnswer); {
	case isMoM && answer.Output:
		return answer.Body, momOutput
	case isMoM:
		return answer.Body, momChanges
	}
	body, err := json.Marshal(value)
	if err != nil {
		return nil, "application/json"
	}
	return append(body, '\n'), "application/json"
}
