// Package api is how others talk to the host: processes of this machine on a unix socket, the hookhosts of other hosts over TLS
// with certificates on both sides. It is HTTP and JSON on both.
//
//	POST /v1/events/{event}     root, head          hostapi.Request in, hostapi.Outcome out; a head: see fromHost
//	POST /v1/pbs/event          root                MoM's input file for its hook in, what the hook is to do out: see MoM
//	POST /v1/attach             root, owner, host   {"job","pid","host"} in, Attached out
//	GET  /v1/jobs               everybody           {"jobs":[...]}: root all, others their own, a host those that it is of
//	GET  /v1/jobs/{id}          root, owner, host   Job
//	GET  /v1/jobs/mine          root, owner         the job that the caller is a process of
//	GET  /v1/jobs/{id}/report   root, owner, host   the usage report
//	GET  /v1/reports            every user          a usage report of a finished job a line, oldest first: root all, others their own
//	GET  /v1/jobs/{id}/notices  root, owner         a Notice a line, as they come, until the job is over; ?after=SEQ
//	GET  /v1/node               everybody           NodeInfo; hooks for root only
//	GET  /v1/origin             host                {"job"}: which job the connection ?local=IP:PORT&remote=IP:PORT comes from
//	POST /v1/reload             root
//
// "host" is a host of the job, "head" the host that has begun it here. A call that does not name hosts is denied to them.
//
// A rejected event is an answer, not an error: 200 with "reject": true. Errors are {"error","kind"} with a status.
// Who calls is what the kernel, or the certificate, says of the connection, never what the request says; a caller for whom it says nothing
// may do nothing. To others than those a job does not exist: the answer is the same as for one that never was.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
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
	// Job returns a job that lives here. It fails with ErrNotFound only where it is certain that it does not: other hosts end what is left
	// of it then.
	Job(ctx context.Context, id string) (Job, error)
	// Report returns the usage report of a live or finished job. It fails with ErrNotFound, also for a job that may
	// does not admit, and does nothing for that job before it has asked. may takes nil for a job that is not known.
	Report(ctx context.Context, id string, may func(*hostapi.Job) bool) (json.RawMessage, error)
	// Notices returns the lines for the job's standard error that hooks told between events, but for the first after of
	// them, and how many there are in all. It waits until there are some. It fails with io.EOF when a live job is
	// over, and with ErrNotFound as Report does.
	Notices(ctx context.Context, id string, after int, may func(*hostapi.Job) bool) (lines []string, all int, err error)
}

// Reports knows the jobs that have ended.
type Reports interface {
	// Finished calls yield with the report of each finished job that may admits, oldest first, until it returns false.
	Finished(ctx context.Context, may func(*hostapi.Job) bool, yield func(json.RawMessage) bool) error
}

// Node knows the host itself.
type Node interface {
	Node(ctx context.Context) (NodeInfo, error)
	// Reload reads the configuration anew; on an error the old one stays.
	Reload(ctx context.Context) error
}

// Processes tells who and what a process belongs to. It fails with ErrNotFound.
type Processes interface {
	Process(pid int) (Process, error)
	// JobOf returns the job in whose cgroup the process is.
	JobOf(ctx context.Context, pid int) (Job, error)
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
	Suspended     time.Duration                 `json:"suspended,omitzero"`               // nanoseconds, the suspension that it is in included
	Elapsed       float64                       `json:"elapsed_seconds"`                  // since its launch, suspensions not counted
	Limit         *float64                      `json:"walltime_limit_seconds,omitempty"` // of Elapsed; nil without a limit
	Left          *float64                      `json:"walltime_left_seconds,omitempty"`  // until Limit, 0 behind it; nil without a limit
	ResourcesUsed hostapi.Resources             `json:"resources_used,omitempty"`
	Hosts         map[string]*hostapi.HostUsage `json:"hosts,omitempty"`
	Diag          map[string]string             `json:"diag_messages,omitempty"`
	Notes         []string                      `json:"notes,omitempty"`
	Run           string                        `json:"run,omitempty"`  // of a job that a hookhost has begun on several hosts
	Head          string                        `json:"head,omitempty"` // the host that has begun it here, where that is another
}

// NodeInfo is the host and, for root, its hooks.
type NodeInfo struct {
	Version string     `json:"version"`
	PID     int        `json:"pid"`
	Node    string     `json:"node"`
	Mode    string     `json:"mode"` // of the cgroups: v1, hybrid or v2
	Since   time.Time  `json:"since,omitzero"`
	Hooks   []HookInfo `json:"hooks,omitempty"`

	Refused map[string]int64 `json:"refused,omitempty"` // calls and connections that were refused since then, by kind of error; for root
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
type timeouts struct{ header, request, idle, answer, host time.Duration }

// Server serves the API. Set the exported fields before Serve.
type Server struct {
	Events    Events
	Jobs      Jobs
	Node      Node
	Processes Processes

	// Reports answers /v1/reports; without, there is no such call.
	Reports Reports
	// MoM answers the hook of pbs_mom; without, there is no such call.
	MoM MoM
	// Sisters decides about other hosts; without, they may do nothing.
	Sisters Sisters
	// Host is this host as exec_vnode names it; for Sisters.
	Host string
	// Refused, if set, is told of each call that was refused for who made it, or for how its host speaks. It may be called at the same time.
	Refused func(peer Peer, call string, err error)
	// Ignored, if set, is told the keys of an event that its request holds and nobody knows.
	Ignored func(event hostapi.Event, keys []string)
	// ErrorLog takes what goes wrong on connections; nil is the log package's own.
	ErrorLog *log.Logger

	timeouts timeouts
	ready    sync.Once
	users    *http.Server    // on the unix socket
	hosts    *http.Server    // over TLS
	stopping context.Context // ends with Shutdown: streams end with it
	stop     context.CancelFunc
}

// NewServer returns a server of these backends.
func NewServer(events Events, jobs Jobs, node Node, processes Processes) *Server {
	s := &Server{
		Events: events, Jobs: jobs, Node: node, Processes: processes,
		timeouts: timeouts{header: 5 * time.Second, request: 30 * time.Second, idle: time.Minute, answer: 10 * time.Second, host: 5 * time.Minute},
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.users = &http.Server{Handler: s.routes(), ConnContext: withPeer, MaxHeaderBytes: 16 << 10}
	s.hosts = &http.Server{Handler: s.users.Handler, ConnContext: withPeer, MaxHeaderBytes: 16 << 10}
	return s
}

// Serve answers on l, a Listener or a TLSListener, until Shutdown, then returns nil. It closes l. On anything else nobody may do anything.
func (s *Server) Serve(l net.Listener) error {
	s.ready.Do(func() {
		for _, h := range []*http.Server{s.users, s.hosts} {
			h.ErrorLog = s.ErrorLog
			h.ReadHeaderTimeout, h.ReadTimeout = s.timeouts.header, s.timeouts.request
		}
		s.users.IdleTimeout, s.hosts.IdleTimeout = s.timeouts.idle, s.timeouts.host
	})
	h := s.users
	if _, ok := l.(*TLSListener); ok {
		h = s.hosts
	}
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown takes no further request and waits for those begun, until ctx is done.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	var hosts error
	var both sync.WaitGroup
	both.Go(func() { hosts = s.hosts.Shutdown(ctx) })
	users := s.users.Shutdown(ctx)
	both.Wait()
	return errors.Join(users, hosts)
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/events/{event}", s.endpoint(rootOrHost, maxEvent, s.event))
	mux.Handle("POST /v1/pbs/event", http.HandlerFunc(s.momEvent))
	mux.Handle("POST /v1/attach", s.endpoint(anybody, maxSmall, s.attach))
	mux.Handle("GET /v1/jobs", s.endpoint(anybody, maxSmall, s.jobs))
	mux.Handle("GET /v1/jobs/{id}", s.endpoint(anybody, maxSmall, s.job))
	mux.Handle("GET /v1/jobs/mine", s.endpoint(usersOnly, maxSmall, s.mine))
	mux.Handle("GET /v1/jobs/{id}/report", s.endpoint(anybody, maxSmall, s.report))
	mux.Handle("GET /v1/jobs/{id}/notices", http.HandlerFunc(s.notices))
	mux.Handle("GET /v1/reports", http.HandlerFunc(s.reports))
	mux.Handle("GET /v1/node", s.endpoint(anybody, maxSmall, s.node))
	mux.Handle("GET /v1/origin", s.endpoint(hostsOnly, maxSmall, s.origin))
	mux.Handle("POST /v1/reload", s.endpoint(rootOnly, maxSmall, s.reload))
	mux.Handle("/", s.endpoint(anybody, maxSmall, func(_ Peer, r *http.Request) (any, error) { return nil, noCall(r) }))
	return mux
}

func noCall(r *http.Request) error {
	return &Error{Status: http.StatusNotFound, Kind: KindNotFound, Message: fmt.Sprintf("%s %s: no such call", r.Method, r.URL.Path)}
}

// access decides from the peer alone whether a call may be made at all. What a host may do beyond that is the call's own affair: one
// that lets hosts in looks at Peer.Host.
type access func(Peer) error

func anybody(Peer) error { return nil }

func usersOnly(p Peer) error {
	if p.Host != "" {
		return denied("%s: users of this host only", p)
	}
	return nil
}

func hostsOnly(p Peer) error {
	if p.Host == "" {
		return denied("%s: hosts only", p)
	}
	return nil
}

func rootOnly(p Peer) error {
	if !p.root() {
		return denied("%s: root only", p)
	}
	return nil
}

func rootOrHost(p Peer) error {
	if p.Host != "" {
		return nil
	}
	return rootOnly(p)
}

// admit returns who makes a call, or why it may not be made.
func (s *Server) admit(r *http.Request, may access) (Peer, error) {
	peer, ok := peerFrom(r.Context())
	if !ok {
		return Peer{}, &Error{Status: http.StatusForbidden, Kind: KindDenied, Message: "denied: the caller is unknown"}
	}
	if peer.Host != "" {
		if err := checkVersion(r.Header, peer.Host); err != nil {
			return peer, err
		}
		if s.Sisters == nil {
			return peer, denied("%s: this host works with no other", peer)
		}
	}
	return peer, may(peer)
}

// endpoint makes a handler of a call: access first, before a byte of the body is read; then its value or error as JSON.
func (s *Server) endpoint(may access, limit int64, call func(Peer, *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The deadline of the connection's answer before this one must not hit a "100 Continue".
		http.NewResponseController(w).SetWriteDeadline(time.Time{})
		var value any
		peer, err := s.admit(r, may)
		if err == nil {
			r.Body = http.MaxBytesReader(w, r.Body, limit)
			value, err = call(peer, r)
		}
		s.answer(w, r, value, err)
	})
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
	body, err := json.Marshal(value)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"encode answer: not JSON","kind":"internal"}`)
	}
	// The deadline is set only now: how long an event takes is its alarm's matter, not the connection's.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.timeouts.answer))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(versionHeader, majorVersion)
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}
