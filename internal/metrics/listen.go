package metrics

import (
	"context"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// Bounds on scrapes over TCP, where callers are not identified. A connection serves one answer, so
// each makes room for the next within seconds.
const (
	maxConns   = 64
	headerTime = 2 * time.Second
	answerTime = 30 * time.Second
	maxHeader  = 8 << 10
)

// Endpoint serves metrics on a TCP address: GET /metrics in plain HTTP, and nothing else. A zero
// value with a Handler does not listen.
type Endpoint struct {
	Handler  http.Handler
	ErrorLog *log.Logger // receives errors of connections

	mu      sync.Mutex
	address string
	server  *http.Server
}

// Listen listens on an address, IP:PORT, instead of the previous one; "" stops listening. After an
// error it does not listen, and the next call tries again.
func (e *Endpoint) Listen(address string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if address == e.address {
		return nil
	}
	e.close()
	if address == "" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err // says "listen tcp ADDRESS"
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", e.answer)
	e.address = address
	e.server = &http.Server{
		Handler: mux, ErrorLog: e.ErrorLog, MaxHeaderBytes: maxHeader,
		ReadTimeout: headerTime, WriteTimeout: answerTime,
	}
	e.server.SetKeepAlivesEnabled(false)
	go e.server.Serve(netutil.LimitListener(l, maxConns))
	return nil
}

func (e *Endpoint) answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, r.Method+" /metrics: want GET", http.StatusMethodNotAllowed)
	case r.ContentLength != 0:
		http.Error(w, "the request has a body, want none", http.StatusBadRequest)
	default:
		e.Handler.ServeHTTP(w, r)
	}
}

// Close stops listening. Answers in progress get a moment to finish.
func (e *Endpoint) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.close()
}

func (e *Endpoint) close() {
	if e.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if e.server.Shutdown(ctx) != nil {
		e.server.Close()
	}
	e.server, e.address = nil, ""
}
