// Package web serves reports to browsers: the jobs now, finished jobs, one job's report. Package
// report makes the pages. A server has no state: it asks the daemon for each page, as its own user.
// So root's server shows all jobs, and a user's server only that user's jobs.
//
//	GET /            the jobs that live on this host
//	GET /finished    finished jobs, newest first; ?user=&name=&state=&skip=
//	GET /search      the job with an id or a number, or jobs with a name; ?q=
//	GET /jobs/{id}   the report of a job
//
// What lives is loaded again from time to time, without a script, unless ?refresh=off is given.
//
// On a loopback address every user of the host can connect. There the paths are below a token,
// which is part of the printed address only. On a unix socket the file's mode decides. A proxy
// there can name a user in a header. That user sees only their own jobs.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/report"
)

const (
	mostConnections = 256
	drain           = 5 * time.Second
)

// Bounds on simultaneous requests, counted for each viewer separately.
const (
	mostAtWork  = 2
	mostWaiting = 16 // including those in progress
	longestRest = 10 * time.Second
)

// Daemon supplies the jobs. A page takes two or three requests.
type Daemon interface {
	// Node returns the name of this host.
	Node(ctx context.Context) (string, error)
	// Jobs returns the live jobs, with their current usage of this host.
	Jobs(ctx context.Context) ([]api.Job, error)
	Report(ctx context.Context, id string) (json.RawMessage, error)
	// Finished calls yield with the reports of finished jobs that f chooses, until yield returns
	// false. With a limit in f the newest one comes first.
	Finished(ctx context.Context, f report.Filter, yield func(json.RawMessage) bool) error
}

// Access decides which jobs a viewer may see.
type Access struct {
	Token      string // of a loopback address: the path below which the pages are
	UserHeader string // of a proxy behind a unix socket: the header with the user's name; "": none
	All        bool   // the daemon shows the server jobs of several users
}

// server answers requests.
type server struct {
	daemon Daemon
	access Access
	turns  api.Turns // by viewer
}

// Handler returns the handler of the pages.
func Handler(daemon Daemon, access Access) http.Handler {
	s := &server{daemon: daemon, access: access,
		turns: api.Turns{Places: mostAtWork, Most: mostWaiting, Rest: longestRest}}
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", s.page(jobsPage))
	pages.HandleFunc("GET /finished", s.page(finishedPage))
	pages.HandleFunc("GET /search", s.page(searchPage))
	pages.HandleFunc("GET /jobs/{id}", s.page(reportPage))
	h := http.Handler(pages)
	if access.Token != "" {
		h = s.below(pages)
	}
	return guarded(h)
}

// Serve answers on l until ctx ends, and then completes the answers in progress. A connection
// serves one answer: every user can connect, and none must be able to occupy all connections.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, MaxHeaderBytes: 16 << 10, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: time.Minute,
	}
	server.SetKeepAlivesEnabled(false)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(l, mostConnections)) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("stop serving %s: %w", l.Addr(), err), server.Close())
	}
	return nil
}

// guarded sets the security headers of every answer.
func guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Security-Policy", "frame-ancestors 'none'")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Content-Type-Options", "nosniff")
		if r.URL.Path == "/favicon.ico" { // browsers request it unasked, and complain if it is missing
			w.WriteHeader(http.StatusNoContent)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// page makes the handler of a page: it finds the viewer and waits for one of the viewer's turns.
func (s *server) page(write func(*server, viewer, http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := s.viewer(r)
		if err != nil {
			fail(w, r, err)
			return
		}
		leave, err := s.turns.Enter(r.Context(), v.user)
		if err != nil {
			fail(w, r, fmt.Errorf("%w: %w", errBusy, err))
			return
		}
		defer leave()
		if err := write(s, v, w, r); err != nil {
			fail(w, r, err)
		}
	}
}

// fail answers with an error. A page that has begun is broken off.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	status, title := http.StatusBadGateway, "The daemon has not answered"
	switch {
	case r.Context().Err() != nil || w.Header().Get("Content-Type") != "":
		panic(http.ErrAbortHandler)
	case errors.Is(err, api.ErrNotFound):
		status, title = http.StatusNotFound, "No such job here"
	case errors.Is(err, errRequest):
		status, title = http.StatusBadRequest, "Bad request"
	case errors.Is(err, errUnknown):
		status, title = http.StatusForbidden, "Forbidden"
	case errors.Is(err, errBusy):
		status, title = http.StatusTooManyRequests, "Too many requests"
	case errors.Is(err, api.ErrNoHost):
		status, title = http.StatusServiceUnavailable, "No daemon runs on this host"
	}
	remark := err.Error()
	if status == http.StatusNotFound {
		remark += ". The hosts on which a job ran have its report."
	}
	up := strings.Repeat("../", max(0, strings.Count(r.URL.Path, "/")-1))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	report.HTML{Title: title, Links: links(up, ""), Search: up + "search", Remark: remark}.WriteMessage(w)
}
