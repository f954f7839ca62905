package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// A connection without a certificate of the CA, for a host and in its time, is closed unheard. The
// refusal is told and counted.
func TestHostWithoutAGoodCertificateIsClosedUnheard(t *testing.T) {
	a, other, refused := newAuthority(t), newAuthority(t), &refusals{}
	b := &backend{}
	addr := serveTLS(t, a, b, refused)
	good := a.files("n1")
	with := func(files TLSFiles) *tls.Config {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		must.NoError(t, err)
		return &tls.Config{InsecureSkipVerify: true,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}
	}
	forged := with(good) // the certificate that everybody may read, with a key of one's own
	stolen, err := forged.GetClientCertificate(nil)
	must.NoError(t, err)
	stolen = &tls.Certificate{Certificate: stolen.Certificate, PrivateKey: newKey(t)}
	forged.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return stolen, nil }
	name := func(names ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.DNSNames = names }
	}
	tests := []struct {
		name   string
		config *tls.Config
		served bool
	}{
		{"as it should be", with(good), true},
		{"none", &tls.Config{InsecureSkipVerify: true}, false},
		{"forged", forged, false},
		{"expired", with(a.files("n1x", name("n1"),
			func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })), false},
		{"not yet valid", with(a.files("n1y", name("n1"),
			func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })), false},
		{"of another CA", with(other.files("n1")), false},
		{"for servers only",
			with(a.files("n1s", name("n1"),
				func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })), false},
		{"for no host", with(a.files("n1n", name(), func(c *x509.Certificate) { c.Subject.CommonName = "n1" })), false},
		{"for every host", with(a.files("n1w", name("*.cluster"))), false},
		{"for a name that is none", with(a.files("n1b", name("n1 n2"))), false},
		{"TLS 1.2", func() *tls.Config { c := with(good); c.MaxVersion = tls.VersionTLS12; return c }(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			refused.clear()
			client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return (&tls.Dialer{Config: tt.config}).DialContext(ctx, "tcp", addr)
				}}}
			req, err := http.NewRequest("GET", "http://x/v1/node", nil)
			must.NoError(t, err)
			req.Header.Set(versionHeader, majorVersion)
			resp, err := client.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			if served := err == nil && resp.StatusCode == 200; served != tt.served {
				t.Errorf("served %t: %v", served, err)
			}
			if tt.served {
				return
			}
			must.Eventually(t, "it is told", func() bool {
				list := refused.clear()
				return len(list) == 1 &&
					strings.HasPrefix(list[0], "an unknown host, connect: certificate: connection from 127.0.0.1:")
			})
		})
	}
}

// A client believes nobody but the host that it calls, and knows whether its call was carried out.
func TestWhoAnswers(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	b := &backend{}
	addr := serveTLS(t, a, b, &refusals{}) // it is n2
	id := a.identity("n1")
	dial := func(addr, host string, id *Identity) *Client {
		c := DialTLS(addr, host, id, 10*time.Second)
		t.Cleanup(func() { c.Close() })
		return c
	}
	for _, host := range []string{"n2", "n2.cluster", "127.0.0.1"} {
		if _, err := dial(addr, host, id).Node(t.Context()); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	gone.Close()
	for _, tt := range []struct {
		name, addr, host string
		id               *Identity
		text             string
	}{
		{"another host", addr, "n3", id, "not n3"},
		{"another address", addr, "127.0.0.2", id, "127.0.0.2"},
		{"a host that does not know us", addr, "n2", func() *Identity { // its CA is known here, ours is not there
			files := other.files("n1")
			files.CA = a.files("n1").CA
			id := &Identity{files: files}
			held, err := TLSFiles{CA: other.files("n5").CA, Cert: files.Cert, Key: files.Key}.load()
			must.NoError(t, err)
			held.pool = a.identity("n6").held.pool
			id.held, id.seen = held, stampsOf(files)
			return id
		}(), "refused this host's certificate"},
		{"a host of another CA", addr, "n2", other.identity("n1"), "unknown authority"},
		{"nobody", gone.Addr().String(), "n2", id, "connection refused"},
	} {
		_, err := dial(tt.addr, tt.host, tt.id).Node(t.Context())
		if !errors.Is(err, ErrUnsent) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v; want unsent, with %q", tt.name, err, tt.text)
		}
	}
	if len(b.seen()) > 0 {
		t.Error("something was carried out")
	}
	// Somebody who accepts and says nothing.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer silent.Close()
	c := DialTLS(silent.Addr().String(), "n2", id, 50*time.Millisecond)
	defer c.Close()
	if _, err := c.Node(t.Context()); !errors.Is(err, ErrUnsent) || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("silence: %v", err)
	}
}

// An answer that names another version, or none, is not taken for one.
func TestAnswerOfAnotherVersion(t *testing.T) {
	a := newAuthority(t)
	for told, text := range map[string]string{"2.1": "n2 speaks version 2.1 of the API, this host 1",
		"": "n2 speaks no known version"} {
		l, err := ListenTLS("127.0.0.1:0", a.identity("n2"), nil)
		must.NoError(t, err)
		s := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if told != "" {
				w.Header().Set(versionHeader, told)
			}
			io.WriteString(w, "{}")
		})}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		c := a.as("n1", l.Addr().String())
		if _, err := c.Node(t.Context()); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", told, err)
		}
		c.Close()
		s.Close()
		<-served
	}
}

// TestStrangersOnThePort: who speaks something else, or nothing, is cut off and keeps no host
// waiting.
func TestStrangersOnThePort(t *testing.T) {
	a, refused := newAuthority(t), &refusals{}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	l := listenTLS(tcp, a.identity("n2"), refused.add, time.Second)
	b := &backend{}
	s := NewServer(b, b, b, b)
	s.Host, s.Sisters = "n2", &sisters{}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Shutdown(context.Background())
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	addr := tcp.Addr().String()
	hello := new(bytes.Buffer) // of a handshake that is never done
	func() {
		us, them := net.Pipe()
		defer us.Close()
		go func() { tls.Client(them, &tls.Config{InsecureSkipVerify: true}).Handshake(); them.Close() }()
		buf := make([]byte, 16<<10)
		n, _ := us.Read(buf)
		hello.Write(buf[:n])
	}()
	for name, text := range map[string]string{
		"nothing": "", "plain HTTP": "GET /v1/node HTTP/1.1\r\nHost: x\r\nHookhost-Api: 1\r\n\r\n",
		"garbage":      strings.Repeat("\xff", 4096),
		"half a hello": hello.String()[:hello.Len()/2], "a hello": hello.String(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", addr)
			must.NoError(t, err)
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			io.WriteString(conn, text)
			got, err := io.ReadAll(conn)
			if errors.Is(err, os.ErrDeadlineExceeded) || bytes.Contains(got, []byte("HTTP")) &&
				bytes.Contains(got, []byte("200")) {
				t.Errorf("%q, %v; want the connection closed", got, err)
			}
		})
	}
}

// So many handshakes of one address may be under way, and so many connections of one host. Beyond
// that others are not affected.
func TestTooManyConnections(t *testing.T) {
	a, refused := newAuthority(t), &refusals{}
	addr := serveTLS(t, a, &backend{}, refused)
	var conns []net.Conn
	t.Cleanup(func() {
		for _, c := range conns {
			c.Close()
		}
	})
	config := a.identity("n1").client("n2")
	alive := 0
	for range connsPerHost + 8 {
		conn, err := tls.Dial("tcp", addr, config)
		must.NoError(t, err)
		conns = append(conns, conn)
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(conn, "GET /v1/node HTTP/1.1\r\nHost: x\r\n%s: 1\r\n\r\n", versionHeader)
		if b := make([]byte, 12); func() bool { _, err := io.ReadFull(conn, b); return err == nil }() &&
			string(b) == "HTTP/1.1 200" {
			alive++
		}
	}
	if alive != connsPerHost {
		t.Errorf("n1 has %d connections, want %d", alive, connsPerHost)
	}
	if list := refused.clear(); len(list) != 8 || !strings.HasPrefix(list[0], "host n1, connect: certificate: ") {
		t.Errorf("told: %q", list)
	}
	if _, err := a.as("n3", addr).Node(t.Context()); err != nil {
		t.Errorf("another host: %v", err)
	}
	// Connections that never say anything: those beyond the bound are closed at once, the others
	// have their time.
	closed := make(chan bool, handshakesPerAddress+10)
	var readers sync.WaitGroup
	for range cap(closed) {
		conn, err := net.Dial("tcp", addr)
		must.NoError(t, err)
		conns = append(conns, conn)
		readers.Go(func() { io.Copy(io.Discard, conn); closed <- true })
	}
	for range 10 {
		select {
		case <-closed:
		case <-time.After(20 * time.Second):
			t.Fatal("all of them are kept")
		}
	}
	for _, c := range conns {
		c.Close()
	}
	readers.Wait()
	must.Eventually(t, "n1 is let in again", func() bool {
		_, err := a.as("n1", addr).Node(t.Context())
		return err == nil
	})
}

// Bodies of hosts have the bounds of others', and none is read before it is known that the call may
// be made.
func TestLargeBodiesOfHosts(t *testing.T) {
	a, refused := newAuthority(t), &refusals{}
	b := &backend{jobs: []Job{twoHosts("1.srv")}}
	addr := serveTLS(t, a, b, refused)
	large := strings.Repeat("x", maxEvent+1)
	for _, tt := range []struct {
		path, body string
		status     int
	}{
		{"/v1/events/execjob_end", `{"run":"` + run32 + `","job":{"id":"1.srv","name":"` + large + `"}}`, 413},
		{"/v1/attach", `{"job":"1.srv","x":"` + large[:maxSmall] + `"}`, 413},
		{"/v1/events/execjob_end", strings.Repeat("[", 1<<20), 400},
		{"/v1/events/execjob_end", "\x00\xff", 400},
		{"/v1/reload", large, 403},
	} {
		// A connection each: the server closes one whose body it does not want to read.
		if got := a.as("n1", addr).raw(t, "POST", tt.path, tt.body); got.Status != tt.status {
			t.Errorf("%s with %d bytes: %d %.100s, want %d", tt.path, len(tt.body), got.Status, got.Body, tt.status)
		}
	}
	if len(b.seen()) > 0 {
		t.Errorf("carried out: %v", b.seen())
	}
}

// A request that drips is cut off over TLS as it is on the socket.
func TestSlowHosts(t *testing.T) {
	a := newAuthority(t)
	addr := serveTLS(t, a, &backend{}, &refusals{}, func(s *Server) {
		s.timeouts.header, s.timeouts.request, s.timeouts.host = 50*time.Millisecond, 100*time.Millisecond,
			50*time.Millisecond
	})
	config := a.identity("n1").client("n2")
	for name, head := range map[string]string{
		"nothing": "", "header": "POST /v1/attach HTTP/1.1\r\n",
		"body": "POST /v1/attach HTTP/1.1\r\nHost: x\r\nHookhost-Api: 1\r\nContent-Length: 60000\r\n\r\n",
		"idle": "GET /v1/node HTTP/1.1\r\nHost: x\r\nHookhost-Api: 1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := tls.Dial("tcp", addr, config)
			must.NoError(t, err)
			defer conn.Close()
			conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			io.WriteString(conn, head)
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is still open")
			}
		})
	}
}

// New files are taken over as connections are made; ones that cannot be used change nothing, and
// that is told.
func TestFilesAreReadAgain(t *testing.T) {
	a := newAuthority(t)
	files := a.files("n1")
	id, err := LoadIdentity(files)
	must.NoError(t, err)
	var told []error
	id.Reread = func(err error) { told = append(told, err) }
	before := id.Expires()
	if len(told) > 0 {
		t.Fatalf("read again for nothing: %v", told)
	}
	a.files("n1", func(c *x509.Certificate) { c.NotAfter = c.NotAfter.Add(24 * time.Hour) })
	if after := id.Expires(); !after.After(before) || len(told) != 1 || told[0] != nil {
		t.Errorf("expires %v, before %v; told %v", after, before, told)
	}
	whole, err := os.ReadFile(files.Cert)
	must.NoError(t, err)
	must.NoError(t, os.WriteFile(files.Cert, whole[:100], 0o600))
	for range 3 { // a bad file is told of once
		if id.Name() != "n1" || len(told) != 2 || told[1] == nil {
			t.Errorf("%s, told %v", id.Name(), told)
		}
	}
	if err := id.Reload(); err == nil {
		t.Error("Reload of half a certificate: no error")
	}
	must.NoError(t, os.WriteFile(files.Cert, whole, 0o600))
	if err := id.Reload(); err != nil {
		t.Error(err)
	}
}

func TestLoadIdentityRefuses(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	good := a.files("n1")
	for name, tt := range map[string]struct {
		files TLSFiles
		spoil func()
		text  string
	}{
		"as it should be":      {files: good},
		"no CA":                {files: TLSFiles{good.CA + "x", good.Cert, good.Key}, text: "no such file"},
		"no certificate in CA": {files: TLSFiles{good.Key, good.Cert, good.Key}, text: "no certificate in it"},
		"another's key":        {files: TLSFiles{good.CA, good.Cert, a.files("n3").Key}, text: "does not match"},
		"signed by another CA": {files: func() TLSFiles { f := other.files("n4"); f.CA = good.CA; return f }(),
			text: "unknown authority"},
		"names no host": {files: a.files("x", func(c *x509.Certificate) { c.DNSNames = nil }),
			text: "names no host"},
		"expired is a warning": {files: a.files("old", func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Minute), time.Now().Add(-time.Minute)
		})},
		"key that all may read": {files: a.files("n7"), spoil: func() { os.Chmod(a.dir+"/n7.key", 0o644) },
			text: "chmod 600"},
		"key for a group": {files: a.files("n8"), spoil: func() { os.Chmod(a.dir+"/n8.key", 0o640) }},
	} {
		if tt.spoil != nil {
			tt.spoil()
		}
		id, err := LoadIdentity(tt.files)
		if (err == nil) != (tt.text == "") || err != nil && !strings.Contains(err.Error(), tt.text) ||
			(id == nil) != (err != nil) {
			t.Errorf("%s: %v, want %q", name, err, tt.text)
		}
	}
	if os.Getuid() == 0 {
		f := a.files("n9")
		must.NoError(t, os.Chown(f.Key, nobody, nobody))
		if _, err := LoadIdentity(f); err == nil || !strings.Contains(err.Error(), "want root") {
			t.Errorf("a user's key: %v", err)
		}
	}
}

// An event of a host is carried out to its end though that has gone away, and connections are given
// back.
func TestHostGoesAway(t *testing.T) {
	a := newAuthority(t)
	begins, done := make(chan struct{}), make(chan error, 1)
	goOn := make(chan struct{})
	b := &backend{handle: func(ctx context.Context, _ *hostapi.Request) (*hostapi.Outcome, error) {
		close(begins)
		<-goOn
		done <- ctx.Err()
		return nil, nil
	}}
	n1 := a.as("n1", serveTLS(t, a, b, &refusals{}))
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := n1.Handle(ctx, &hostapi.Request{Event: hostapi.EventEnd, Run: run32, Job: &hostapi.Job{ID: "1.srv"}})
		failed <- err
	}()
	<-begins
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnsent) {
		t.Errorf("the caller got %v", err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Errorf("the event's context: %v", err)
	}
}

// A host that carries out many jobs at once has fewer connections than its sister lets it have, and
// none of its calls is lost.
func TestManyCallsAtOnce(t *testing.T) {
	const calls = 3 * connsPerHost
	a, refused := newAuthority(t), &refusals{}
	begun, goOn := make(chan bool, calls), make(chan bool)
	b := &backend{handle: func(context.Context, *hostapi.Request) (*hostapi.Outcome, error) {
		begun <- true
		<-goOn
		return &hostapi.Outcome{}, nil
	}}
	addr := serveTLS(t, a, b, refused)
	client := a.as("n1", addr)
	errs := make(chan error, calls)
	for range calls {
		go func() {
			_, err := client.Handle(t.Context(),
				&hostapi.Request{Event: hostapi.EventEnd, Run: run32, Job: &hostapi.Job{ID: "1.srv"}})
			errs <- err
		}()
	}
	for range connsToHost {
		<-begun
	}
	if _, err := a.as("n1", addr).Node(t.Context()); err != nil { // a command of that host, which calls by itself
		t.Error(err)
	}
	close(goOn)
	for range calls {
		must.NoError(t, <-errs)
	}
	if list := refused.clear(); len(list) > 0 {
		t.Errorf("refused: %q", list)
	}
}
