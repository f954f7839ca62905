// Package api is how processes of this machine talk to the host: HTTP and JSON on a unix socket.
//
//	POST /v1/events/{event}      root         Request in, Outcome out
//	POST /v1/pbs/event           root         MoM's input file in, changes out: see MoM
//	POST /v1/attach              root, owner  {"job","pid"} in, Attached out
//	GET  /v1/jobs                everybody    {"jobs":[...]} that the caller may know of
//	POST /v1/jobs                root         {"id"}: the next id of this host's own jobs
//	GET  /v1/jobs/{id}           root, owner  Job
//	GET  /v1/jobs/mine           root, owner  the job that the caller is a process of
//	GET  /v1/jobs/{id}/report    root, owner  the usage report
//	GET  /v1/reports             everybody    a report of a finished job a line, oldest first
//	GET  /v1/jobs/{id}/processes root, owner  its processes: JobProcesses
//	GET  /v1/present             everybody    PresentJobs that the caller may know of
//	GET  /v1/node                everybody    NodeInfo; hooks for root only
//	POST /v1/reload              root
//	GET  /metrics                root         text, for Prometheus
//
// A user's questions (GET) are answered two at a time, the rest wait in line: see Turns. They have
// no body. A list of reports that can no longer all be read ends with the trailer Hookhost-Damaged,
// which says so.
//
// A rejected event is an answer, not an error: 200 with "reject": true. Errors are {"error","kind"}
// with a status.
//
// The kernel says who the caller is, never the request. An unknown caller may do nothing. A job
// that the caller may not know of does not exist for the caller: the answer is that for a job that
// never was.
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
	"sync"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// Sizes of request bodies. An event carries a job's whole environment.
const (
	maxEvent = 8 << 20
	maxSmall = 64 << 10
)

// timeouts bound how long a caller may keep the host waiting; none bounds an event, whose hooks
// have alarms.
type timeouts struct{ header, request, idle, answer time.Duration }

// Server serves the API. Set the exported fields before Serve.
type Server struct {
	Events    Events
	Jobs      Jobs
	Node      Node
	Processes Processes

	// Reports answers /v1/reports; without, there is no such call.
	Reports Reports
	// Meter answers /v1/present and /v1/jobs/{id}/processes; without, there are no such calls.
	Meter Meter
	// Metrics answers /metrics; without, there is no such call.
	Metrics http.Handler
	// MoM answers the hook of pbs_mom; without, there is no such call.
	MoM MoM
	// Host is this host as exec_vnode names it.
	Host string
	// Refused, if set, is called with each call that was refused for who made it. Several
	// goroutines may call it at the same time.
	Refused func(peer Peer, call string, err error)
	// Ignored, if set, is told the keys of an event that its request holds and nobody knows.
	Ignored func(event hostapi.Event, keys []string)
	// ErrorLog takes what goes wrong on connections; nil is the log package's own.
	ErrorLog *log.Logger

	timeouts  timeouts
	questions Turns
	lists     Turns
	ready     sync.Once
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
// listener nobody may do anything.
func (s *Server) Serve(l net.Listener) error {
	s.ready.Do(func() {
		s.http.ErrorLog = s.ErrorLog
		s.http.ReadHeaderTimeout, s.http.ReadTimeout = s.timeouts.header, s.timeouts.request
		s.http.IdleTimeout = s.timeouts.idle
	})
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown takes no further request and waits for those begun, until ctx is done.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	return s.http.Shutdown(ctx)
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
	mux.Handle("GET /v1/jobs", s.endpoint(anybody, maxSmall, s.question(s.jobs)))
	mux.Handle("POST /v1/jobs", s.endpoint(rootOnly, maxSmall, s.newJobID))
	mux.Handle("GET /v1/jobs/{id}", s.endpoint(anybody, maxSmall, s.question(s.job)))
	mux.Handle("GET /v1/jobs/mine", s.endpoint(anybody, maxSmall, s.question(s.mine)))
	mux.Handle("GET /v1/jobs/{id}/report", s.endpoint(anybody, maxSmall, s.question(s.report)))
	mux.Handle("GET /v1/jobs/{id}/processes", s.endpoint(anybody, maxSmall, s.question(s.processesOf)))
	mux.Handle("GET /v1/present", s.endpoint(anybody, maxSmall, s.question(s.present)))
	mux.Handle("GET /v1/reports", s.streaming(anybody, s.reports))
	mux.Handle("GET /v1/node", s.endpoint(anybody, maxSmall, s.node))
	mux.Handle("POST /v1/reload", s.endpoint(rootOnly, maxSmall, s.reload))
	mux.Handle("GET /metrics", s.streaming(rootOnly, s.metrics))
	mux.Handle("/", s.endpoint(anybody, maxSmall, func(_ Peer, r *http.Request) (any, error) { return nil, noCall(r) }))
	return mux
}

// metrics answers a scrape. Users get none: all of it tells of other users too.
func (s *Server) metrics(_ Peer, w http.ResponseWriter, r *http.Request) {
	if s.Metrics == nil {
		s.answer(w, r, nil, noCall(r))
		return
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.timeouts.answer))
	s.Metrics.ServeHTTP(w, r)
}

func noCall(r *http.Request) error {
	return &Error{Status: http.StatusNotFound, Kind: KindNotFound,
		Message: fmt.Sprintf("%s %s: no such call", r.Method, r.URL.Path)}
}

// endpoint makes a handler of a call: access first, before a byte of the body is read; then its
// value or error as JSON.
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

// streaming makes a handler of a call that writes its answer bit by bit. The context of its request
// ends when the caller goes away, and when the server stops.
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
		// The server's own deadline is for the request. While the answer lasts, the connection is
		// read to see the caller go.
		http.NewResponseController(w).SetReadDeadline(time.Time{})
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.stopping, cancel)()
		call(peer, w, r.WithContext(ctx))
	})
}

// sign tells a caller that asks for it, by Expect: 100-continue, that the daemon lives: the kernel
// takes calls for a stopped daemon as well. The write finds out a caller that is gone, and ends the
// request's context.
func (s *Server) sign(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if r.Header.Get("Expect") != "" && r.ProtoAtLeast(1, 1) {
		control.SetWriteDeadline(time.Now().Add(s.timeouts.answer))
		w.WriteHeader(http.StatusContinue)
	}
	// Not that of the connection's answer before this one either.
	control.SetWriteDeadline(time.Time{})
}

// read reads the request's body, so that its context ends when the caller goes. The server's own
// deadline is for the request: while an answer lasts it would look like a caller that has gone.
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
	// The deadline is set only now: how long an event takes is its alarm's matter, not the
	// connection's.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.timeouts.answer))
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body))) // pbs_mom's hook reads no chunks
	w.WriteHeader(status)
	w.Write(body)
}

// encode returns an answer's body and its type: JSON, but for MoM's hook. The body is nil for a
// value that is not JSON.
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
