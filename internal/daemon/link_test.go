package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

// linkTo is a link to what answers at a socket.
func linkTo(t *testing.T, socket string) *Link {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	link, err := Open(socket, log)
	must.NoError(t, err)
	t.Cleanup(link.Close)
	return link
}

// A job goes on when one daemon after the other dies over the same call.
func TestCallOutlivesSeveralDaemons(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	must.NoError(t, err)
	var calls atomic.Int32
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) <= 3 {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, `{"id":"7.n1"}`)
	})}
	go server.Serve(listener)
	defer server.Close()
	id, err := linkTo(t, socket).NewJobID(t.Context())
	if err != nil || id != "7.n1" || calls.Load() != 4 {
		t.Errorf("id %q after %d calls, %v", id, calls.Load(), err)
	}
}

// At its end a job makes several calls. They wait once for a daemon that does not come.
func TestCallsWaitOnceForADaemonThatDoesNotCome(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	must.NoError(t, err)
	link := linkTo(t, socket)
	must.NoError(t, listener.Close())
	link.away = 200 * time.Millisecond
	began := time.Now()
	if _, err := link.NewJobID(t.Context()); err == nil || time.Since(began) < link.away {
		t.Errorf("the first call failed after %v with %v", time.Since(began), err)
	}
	link.away = time.Hour
	if _, err := link.NewJobID(t.Context()); err == nil {
		t.Error("the second call got an answer")
	}
}

// Nothing is there for a while when systemd starts a daemon again.
func TestCallWaitsForTheNextDaemon(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	first, err := net.Listen("unix", socket)
	must.NoError(t, err)
	link := linkTo(t, socket)
	must.NoError(t, first.Close())
	next := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":"7.n1"}`)
	})}
	defer next.Close()
	time.AfterFunc(200*time.Millisecond, func() {
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Error(err)
			return
		}
		next.Serve(listener)
	})
	if id, err := link.NewJobID(t.Context()); err != nil || id != "7.n1" {
		t.Errorf("id %q, %v", id, err)
	}
}

// A daemon that hangs before the job has begun is given up at the first silence.
func TestDaemonThatHangsFromTheStartIsGivenUp(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	must.NoError(t, err)
	defer listener.Close()
	link, began := linkTo(t, socket), time.Now()
	_, err = link.NewJobID(t.Context())
	if took := time.Since(began); !errors.Is(err, api.ErrSilent) || took > awayTime/2 {
		t.Errorf("%v after %v", err, took)
	}
}
