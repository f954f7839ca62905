package tinyhttp

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// listen makes a socket, whose path has to be short.
func listen(t *testing.T) (net.Listener, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hhtiny")
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	must.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l, path
}

func TestPostHandsOverTheBodyAndReturnsTheAnswer(t *testing.T) {
	t.Parallel()
	l, socket := listen(t)
	body, text := strings.Repeat("a question\n", 50_000), strings.Repeat("an answer\n", 100_000)
	var think sync.Once
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body) // which sends 100 Continue
		if err != nil || string(got) != body || r.URL.Path != "/v1/x" || r.Header.Get("Accept") != "text/plain" {
			t.Errorf("%s %v %d bytes, %v", r.URL, r.Header, len(got), err)
		}
		think.Do(func() { time.Sleep(6 * time.Second) }) // longer than to the sign of life
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Content-Length", "1000000")
		w.WriteHeader(http.StatusConflict)
		io.WriteString(w, text)
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	r := Request{Socket: socket, Path: "/v1/x", Header: "Accept: text/plain\r\n", Body: []byte(body),
		Sign: 5 * time.Second, Most: 2 << 20}
	a, err := Post(r)
	if err != nil || a.Status != http.StatusConflict || a.Type != "text/plain" || string(a.Body) != text {
		t.Errorf("status %d, type %q, %d bytes, %v", a.Status, a.Type, len(a.Body), err)
	}
	r.Most = 1 << 16
	if _, err := Post(r); err == nil || !strings.HasSuffix(err.Error(), "too long") {
		t.Errorf("of more bytes than wanted: %v", err)
	}
}

func TestPostGivesUpASilentDaemon(t *testing.T) {
	_, socket := listen(t) // nobody accepts
	for name, r := range map[string]Request{
		"no sign":       {Sign: 100 * time.Millisecond},
		"past deadline": {Sign: time.Hour, Deadline: time.Now().Add(100 * time.Millisecond)},
	} {
		r.Socket, r.Path, r.Most = socket, "/", 1
		if _, err := Post(r); err == nil || !strings.HasSuffix(err.Error(), "no answer in time") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Post(Request{Socket: socket + "none", Sign: time.Second}); err == nil {
		t.Error("there is an answer of no daemon")
	}
}

func TestAnswerHasToBeWhole(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		whole      bool
	}{
		{"whole", "HTTP/1.0 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nbody", true},
		{"behind a sign of life", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
			true},
		{"empty body", "HTTP/1.1 404 Not Found\r\n\r\n", true},
		{"nothing", "", false},
		{"only a sign of life", "HTTP/1.1 100 Continue\r\n\r\n", false},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n", false},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nbody", false},
		{"no head", "body\r\n\r\n", false},
		{"another protocol", "HTTP/2.0 200 OK\r\n\r\nbody", false},
		{"no status", "HTTP/1.0\r\n\r\nbody", false},
		{"status", "HTTP/1.0 fine\r\n\r\nbody", false},
		{"length", "HTTP/1.0 200 OK\r\nContent-Length: x\r\n\r\nbody", false},
		{"short body", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nbody", false},
		{"long body", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nbody", false},
	} {
		if _, err := parse([]byte(tt.text)); (err == nil) != tt.whole {
			t.Errorf("%s: %v, want whole %t", tt.name, err, tt.whole)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nbody"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := parse(b); err == nil && !bytes.HasSuffix(b, a.Body) {
			t.Errorf("body %q is not the end of %q", a.Body, b)
		}
	})
}
