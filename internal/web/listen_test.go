package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

func TestListenTakesLoopbackAndPrivateSocketsAlone(t *testing.T) {
	const others = " 0.0.0.0:80 :80 10.1.2.3:80 [::]:80 localhost host:80 unix:s 127.0.0.1"
	for _, address := range strings.Split(others, " ") {
		if l, err := Listen(address, ""); err == nil {
			l.Close()
			t.Errorf("%q is taken", address)
		}
	}
	path := filepath.Join(t.TempDir(), "s")
	stale, err := net.Listen("unix", path)
	must.NoError(t, err)
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	must.NoError(t, stale.Close())
	l, err := Listen("unix:"+path, fmt.Sprint(os.Getuid()))
	must.NoError(t, err)
	info, err := os.Stat(path)
	must.NoError(t, err)
	must.Equal(t, "mode", os.FileMode(0o600), info.Mode().Perm())
	if second, err := Listen("unix:"+path, ""); err == nil {
		second.Close()
		t.Error("a socket that is served was replaced")
	}
	must.NoError(t, l.Close())
	must.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	if l, err := Listen("unix:"+path, ""); err == nil {
		l.Close()
		t.Error("a file was replaced")
	}
}

func TestSocketIsNotPutWhereOthersCanWrite(t *testing.T) {
	own := t.TempDir()
	shared, link := filepath.Join(own, "shared"), filepath.Join(own, "link")
	must.NoError(t, os.Mkdir(shared, 0o700))
	must.NoError(t, os.Chmod(shared, 0o1777))
	must.NoError(t, os.Symlink(own, link))
	for _, dir := range []string{shared, link} {
		if l, err := Listen("unix:"+filepath.Join(dir, "s"), ""); err == nil {
			l.Close()
			t.Errorf("a socket in %s", dir)
		}
	}
}

// A server that is to end lets an answer that has begun come to its end.
func TestServerEndsAfterTheAnswersThatHaveBegun(t *testing.T) {
	begun, on := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-on
		fmt.Fprint(w, "all of it")
	})
	l, err := Listen("127.0.0.1:0", "")
	must.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served, answered := make(chan error, 1), make(chan string, 1)
	go func() { served <- Serve(ctx, l, h) }()
	go func() {
		answer := ""
		if resp, err := http.Get("http://" + l.Addr().String()); err == nil {
			text := make([]byte, 20)
			n, _ := resp.Body.Read(text)
			resp.Body.Close()
			answer = string(text[:n])
		}
		http.DefaultClient.CloseIdleConnections()
		answered <- answer
	}()
	must.Receive(t, "the request", begun)
	cancel()
	close(on)
	must.Equal(t, "the answer", "all of it", must.Receive(t, "the answer", answered))
	must.NoError(t, must.Receive(t, "the server's end", served))
}

// Every user of the host can connect, and no connection is held by asking once.
func TestAnsweredConnectionsMakeRoom(t *testing.T) {
	l, err := Listen("127.0.0.1:0", "")
	must.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, Handler(&jobs{}, Access{Token: "T"})) }()
	for range mostConnections + 1 {
		c, err := net.Dial("tcp", l.Addr().String())
		must.NoError(t, err)
		defer c.Close()
		fmt.Fprint(c, "GET /favicon.ico HTTP/1.1\r\nHost: localhost\r\n\r\n")
		must.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
		answer, err := io.ReadAll(c) // to its end, which the server makes
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 204") {
			t.Fatalf("%q, %v", answer, err)
		}
	}
	cancel()
	must.NoError(t, must.Receive(t, "the server's end", served))
}
