package metrics

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// stacks returns those of all goroutines.
func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// free returns a local address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func listen(t *testing.T, e *Endpoint) string {
	t.Helper()
	address := free(t)
	must.NoError(t, e.Listen(address))
	t.Cleanup(e.Close)
	return address
}

// says answers everything with a text.
func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })
}

func get(address string) (string, error) {
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func TestEndpointFollowsItsAddress(t *testing.T) {
	e := &Endpoint{Handler: says("x")}
	must.NoError(t, e.Listen(""))
	first := listen(t, e)
	must.NoError(t, e.Listen(first)) // stays as it is
	if got, err := get(first); got != "x" {
		t.Errorf("%q, %v", got, err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	second := busy.Addr().String()
	if err := e.Listen(second); err == nil || !strings.Contains(err.Error(), second) {
		t.Errorf("an address that is taken: %v", err)
	}
	if _, err := get(first); err == nil {
		t.Error("it listens where it is not to any more")
	}
	must.NoError(t, busy.Close(), e.Listen(second))
	if got, err := get(second); got != "x" {
		t.Errorf("%q, %v", got, err)
	}
	must.NoError(t, e.Listen(""))
	if _, err := get(second); err == nil {
		t.Error("it listens, and is to listen nowhere")
	}
}

// Connections that are held without a word are lost, and a scrape gets through.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	address := listen(t, &Endpoint{Handler: says("x")})
	for range maxConns {
		c, err := net.Dial("tcp", address)
		must.NoError(t, err)
		defer c.Close()
	}
	began := time.Now()
	if got, err := get(address); got != "x" {
		t.Errorf("%q, %v", got, err)
	}
	if took := time.Since(began); took < headerTime/2 {
		t.Errorf("after %v: the connections are not bounded", took)
	}
}

func TestEndpointRefusesAHeadWithoutEnd(t *testing.T) {
	c, err := net.Dial("tcp", listen(t, &Endpoint{Handler: says("x")}))
	must.NoError(t, err)
	defer c.Close()
	io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 3*maxHeader)+"\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must.NoError(t, err)
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}
