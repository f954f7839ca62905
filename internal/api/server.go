// Package api is how other processes of this machine talk to the host: HTTP and JSON on a unix socket.
//
//	POST /v1/events/{event}     root            hostapi.Request in, hostapi.Outcome out
//	POST /v1/attach             root, owner     {"job","pid"} in, Attached out
//	GET  /v1/jobs               everybody       {"jobs":[...]}: root all, others their own
//	GET  /v1/jobs/{id}/report   root, owner     the usage report
//	GET  /v1/reports            everybody       a usage report of a finished job a line, oldest first: root all, others their own
//	GET  /v1/jobs/{id}/notices  root, owner     a Notice a line, as they come, until the job is over; ?after=SEQ
//	GET  /v1/node               everybody       NodeInfo; hooks for root only
//	POST /v1/reload             root
//
// A rejected event is an answer, not an error: 200 with "reject": true. Errors are {"error","kind"} with a status.
// Who calls is what the kernel says of the connection, never what the request says; a caller for whom it says nothing
// may do nothing. To others than root and its owner a job does not exist: the answer is the same as for one that
// never was.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// Events carries out events.
type Events interface {
	Handle(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error)
}

// Jobs knows the jobs of this host.
type Jobs interface {
	// Jobs returns the jobs that live here.
	Jobs(ctx context.Context) ([]Job, error)
	// Report returns the usage report of a live or finished job. It fails with ErrNotFound, also for a job whose owner
	// may does not admit, and does nothing for that job before it has asked.
	Report(ctx context.Context, id string, may func(owner int) bool) (json.RawMessage, error)
	// Notices returns the lines for the job's standard error that hooks told between events, but for the first after of
	// them, and how many there are in all. It waits until there are some. It fails with io.EOF when a live job is
	// over, and with ErrNotFound as Report does.
	Notices(ctx context.Context, id string, after int, may func(owner int) bool) (lines []string, all int, err error)
}

// Reports knows the jobs that have ended.
type Reports interface {
	// Finished calls yield with the report of each finished job whose owner may admits, oldest first, until it returns false.
	Finished(ctx context.Context, may func(owner int) bool, yield func(json.RawMessage) bool) error
}

// Node knows the host itself.
type Node interface {
	Node(ctx context.Context) (NodeInfo, error)
	// Reload reads the configuration anew; on an error the old one stays.
	Reload(ctx context.Context) error
}

// Processes tells who a process belongs to. It fails with ErrNotFound.
type Processes interface {
	Process(pid int) (Process, error)
}

// Process is what an attach has to know of a process.
type Process struct {
	UID       int    // real
	StartTime uint64 // clock ticks since boot
}

// Job is a job that lives on this host.
type Job struct {
	Job           *hostapi.Job                  `json:"job"`
	Phase         jobstate.Phase                `json:"phase"`
	Begun         time.Time                     `json:"begun,omitzero"`
	Launched      time.Time                     `json:"launched,omitzero"`
	Suspended     time.Duration                 `json:"suspended,omitzero"` // nanoseconds
	ResourcesUsed hostapi.Resources             `json:"resources_used,omitempty"`
	Hosts         map[string]*hostapi.HostUsage `json:"hosts,omitempty"`
	Diag          map[string]string             `json:"diag_messages,omitempty"`
	Notes         []string                      `json:"notes,omitempty"`
}

// NodeInfo is the host and, for root, its hooks.
type NodeInfo struct {
	Version string     `json:"version"`
	PID     int        `json:"pid"`
	Node    string     `json:"node"`
	Mode    string     `json:"mode"` // of the cgroups: v1, hybrid or v2
	Since   time.Time  `json:"since,omitzero"`
	Hooks   []HookInfo `json:"hooks,omitempty"`
}

// HookInfo is a hook as the host sees it.
type HookInfo struct {
	Name     string          `json:"name"`
	State    string          `json:"state"`
	PID      int             `json:"pid,omitempty"`
	Order    int             `json:"order"`
	Events   []hostapi.Event `json:"events,omitempty"`
	Version  string          `json:"version,omitempty"`
	Restarts int             `json:"restarts,omitempty"`
	Error    string          `json:"error,omitempty"` // why it does not work
}

// Sizes of request bodies. An event carries a job's whole environment.
const (
	maxEvent = 8 << 20
	maxSmall = 64 << 10
)

// timeouts bound how long a caller may keep the host waiting; none bounds an event, whose hooks have alarms.
type timeouts struct{ header, request, idle, answer time.Duration }

// Server serves the API. Set the exported fields before Serve.
type Server struct {
	Events    Events
	Jobs      Jobs
	Node      Node
	Processes Processes

	// Reports answers /v1/reports; without, there is no such call.
	Reports Reports
	// Ignored, if set, is told the keys of an event that its request holds and nobody knows.
	Ignored func(event hostapi.Event, keys []string)
	// ErrorLog takes what goes wrong on connections; nil is the log package's own.
	ErrorLog *log.Logger

	timeouts timeouts
	http     *http.Server
	stopping context.Context // ends with Shutdown: streams end with it
	stop     context.CancelFunc
}

// NewServer returns a server of these backends.
func NewServer(events Events, jobs Jobs, node Node, processes Processes) *Server {
	s := &Server{
		Events: events, Jobs: jobs, Node: node, Processes: processes,
		timeouts: timeouts{header: 5 * time.Second, request: 30 * time.Second, idle: time.Minute, answer: 10 * time.Second},
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.http = &http.Server{Handler: s.routes(), ConnContext: withPeer, MaxHeaderBytes: 16 << 10}
	return s
}

// Serve answers on l until Shutdown, then returns nil. It closes l.
func (s *Server) Serve(l *Listener) error {
	s.http.ErrorLog = s.ErrorLog
	s.http.ReadHeaderTimeout, s.http.ReadTimeout, s.http.IdleTimeout = s.timeouts.header, s.timeouts.request, s.timeouts.idle
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

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/events/{event}", s.endpoint(rootOnly, maxEvent, s.event))
	mux.Handle("POST /v1/attach", s.endpoint(anybody, maxSmall, s.attach))
	mux.Handle("GET /v1/jobs", s.endpoint(anybody, maxSmall, s.jobs))
	mux.Handle("GET /v1/jobs/{id}/report", s.endpoint(anybody, maxSmall, s.report))
	mux.Handle("GET /v1/jobs/{id}/notices", http.HandlerFunc(s.notices))
	mux.Handle("GET /v1/reports", http.HandlerFunc(s.reports))
	mux.Handle("GET /v1/node", s.endpoint(anybody, maxSmall, s.node))
	mux.Handle("POST /v1/reload", s.endpoint(rootOnly, maxSmall, s.reload))
	mux.Handle("/", s.endpoint(anybody, maxSmall, func(_ Peer, r *http.Request) (any, error) { return nil, noCall(r) }))
	return mux
}

func noCall(r *http.Request) error {
	return &Error{Status: http.StatusNotFound, Kind: KindNotFound, Message: fmt.Sprintf("%s %s: no such call", r.Method, r.URL.Path)}
}

// access decides from the peer alone whether a call may be made at all.
type access func(Peer) error

func anybody(Peer) error { return nil }

func rootOnly(p Peer) error {
	if p.root() {
		return nil
	}
	return &Error{Status: http.StatusForbidden, Kind: KindDenied, Message: fmt.Sprintf("denied to uid %d: root only", p.UID)}
}

// endpoint makes a handler of a call: access first, before a byte of the body is read; then its value or error as JSON.
func (s *Server) endpoint(may access, limit int64, call func(Peer, *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The deadline of the connection's answer before this one must not hit a "100 Continue".
		http.NewResponseController(w).SetWriteDeadline(time.Time{})
		peer, ok := peerFrom(r.Context())
		var value any
		var err error
		if !ok {
			err = &Error{Status: http.StatusForbidden, Kind: KindDenied, Message: "denied: the caller is unknown"}
		} else if err = may(peer); err == nil {
			r.Body = http.MaxBytesReader(w, r.Body, limit)
			value, err = call(peer, r)
		}
		s.answer(w, value, err)
	})
}

func (s *Server) answer(w http.ResponseWriter, value any, err error) {
	status := http.StatusOK
	if err != nil {
		e := errorOf(err)
		status, value = e.Status, e
	}
	body, err := json.Marshal(value)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"encode answer: not JSON","kind":"internal"}`)
	}
	// The deadline is set only now: how long an event takes is its alarm's matter, not the connection's.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.timeouts.answer))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}
