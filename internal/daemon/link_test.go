package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// TestMain is also the daemon that a Finder of a test starts. Nothing serves here.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		fmt.Fprintln(os.Stderr, "another daemon was started")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// An owner that does not serve yet is waited for, and no other daemon is started beside it.
func TestDialWaitsForAnOwnerThatStarts(t *testing.T) {
	kernfstest.NeedRoot(t)
	cfg := &config.File{}
	cfg.Cgroup.Prefix = fmt.Sprintf("hhtest_dial_%d", os.Getpid())
	owner, err := acquire(t.Context(), locks, cfg.Cgroup.Prefix, true)
	must.NoError(t, err)
	defer os.Remove(owner.file.Name())
	defer owner.Release()
	socket := filepath.Join(t.TempDir(), "s")
	serving := make(chan net.Listener, 1)
	finder := &Finder{Paths: Paths{Socket: socket}, Load: func() (*config.File, error) {
		time.AfterFunc(100*time.Millisecond, func() {
			listener, err := net.Listen("unix", socket)
			if err != nil {
				t.Error(err)
			}
			serving <- listener
		})
		return cfg, nil
	}}
	client, err := finder.Dial(t.Context())
	if listener := <-serving; listener != nil {
		defer listener.Close()
	}
	must.NoError(t, err)
	client.Close()
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
	log := logrus.New()
	log.SetOutput(io.Discard)
	finder := &Finder{Paths: Paths{Socket: socket}}
	link, err := finder.Open(t.Context(), "hhtest_link", log)
	must.NoError(t, err)
	defer link.Close()
	id, err := link.NewJobID(t.Context())
	if err != nil || id != "7.n1" || calls.Load() != 4 {
		t.Errorf("id %q after %d calls, %v", id, calls.Load(), err)
	}
}

// A job whose daemon has died gets another one, however long none can be started.
func TestNoticesOutliveRedialsThatFail(t *testing.T) {
	kernfstest.NeedRoot(t)
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	follows := make(chan bool, 1)
	serve := func(handle http.HandlerFunc) *http.Server {
		listener, err := net.Listen("unix", socket)
		must.NoError(t, err)
		server := &http.Server{Handler: handle}
		go server.Serve(listener)
		return server
	}
	dead := serve(func(_ http.ResponseWriter, r *http.Request) {
		follows <- true
		<-r.Context().Done()
	})
	var next *http.Server
	loads := 0
	finder := &Finder{Paths: Paths{Socket: socket}, Load: func() (*config.File, error) {
		if loads++; loads == 2 {
			next = serve(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintln(w, `{"seq":1,"job_stderr":["from the next"]}`)
			})
		}
		return nil, errors.New("the configuration is being edited")
	}}
	log := logrus.New()
	log.SetOutput(io.Discard)
	link, err := finder.Open(t.Context(), "hhtest_link", log)
	must.NoError(t, err)
	defer link.Close()
	go func() { <-follows; dead.Close() }()
	var lines []string
	link.Notices(t.Context(), "7.n1", func(l []string) { lines = append(lines, l...) })
	if next == nil {
		t.Fatalf("given up after %d redials", loads)
	}
	defer next.Close()
	if loads != 2 || !slices.Equal(lines, []string{"from the next"}) {
		t.Errorf("%d redials, lines %q", loads, lines)
	}
}
