package api

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// authority signs certificates for tests.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	must.NoError(t, err)
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write("ca.crt", "CERTIFICATE", der)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.NoError(t, err)
	return key
}

func (a *authority) write(name, kind string, b []byte) {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	must.NoError(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600))
}

// files makes a certificate for host; change may make it another one.
func (a *authority) files(host string, change ...func(*x509.Certificate)) TLSFiles {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{host},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, c := range change {
		c(template)
	}
	key := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	must.NoError(a.t, err)
	text, err := x509.MarshalPKCS8PrivateKey(key)
	must.NoError(a.t, err)
	a.write(host+".crt", "CERTIFICATE", der)
	a.write(host+".key", "PRIVATE KEY", text)
	in := func(name string) string { return filepath.Join(a.dir, name) }
	return TLSFiles{CA: in("ca.crt"), Cert: in(host + ".crt"), Key: in(host + ".key")}
}

func (a *authority) identity(host string, change ...func(*x509.Certificate)) *Identity {
	a.t.Helper()
	id, err := LoadIdentity(a.files(host, change...))
	must.NoError(a.t, err)
	return id
}

// refusals is what a server and its listener refused.
type refusals struct {
	mu   sync.Mutex
	list []string
}

func (r *refusals) add(peer Peer, call string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, fmt.Sprintf("%s, %s: %s: %v", peer, call, errorOf(err).Kind, err))
}

func (r *refusals) clear() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, r.list = r.list, nil
	return list
}

// sisters lets n1 and root-less heads do what the tests want.
type sisters struct {
	heads     []string
	allowRoot bool
	evidence  func(pid int, job string) error
	origins   map[netip.AddrPort]string // by local end
	forwarded []string
}

func (s *sisters) MayHead(host string) bool {
	for _, h := range s.heads {
		if h == host {
			return true
		}
	}
	return false
}
func (s *sisters) AllowRoot() bool { return s.allowRoot }
func (s *sisters) Evidence(_ context.Context, pid int, job string) error {
	if s.evidence == nil {
		return notOwner(Peer{}, pid, 0)
	}
	return s.evidence(pid, job)
}
func (s *sisters) Origin(_ context.Context, local, _ netip.AddrPort) (string, error) {
	if job, ok := s.origins[local]; ok {
		return job, nil
	}
	return "", ErrNotFound
}
func (s *sisters) Forward(_ context.Context, host string, in AttachRequest) (Attached, error) {
	s.forwarded = append(s.forwarded, fmt.Sprintf("%s %s %d %s", host, in.Job, in.PID, in.Host))
	return Attached{Job: in.Job}, nil
}

// serveTLS serves b over TLS as host n2 until the test is over and returns the address.
func serveTLS(t testing.TB, a *authority, b *backend, refused *refusals, change ...func(*Server)) string {
	t.Helper()
	var err error
	if b.procfs, err = kernfs.Open("/proc"); err != nil {
		t.Fatal(err)
	}
	l, err := ListenTLS("127.0.0.1:0", a.identity("n2"), refused.add)
	must.NoError(t, err)
	s := NewServer(b, b, b, b)
	s.Reports, s.Host, s.Sisters, s.Refused = b, "n2", &sisters{heads: []string{"n1"}}, refused.add
	s.ErrorLog = log.New(io.Discard, "", 0)
	for _, c := range change {
		c(s)
	}
	serveOn(t, s, l)
	return l.Addr().String()
}

// as returns a client that is host and calls n2.
func (a *authority) as(host, addr string, change ...func(*x509.Certificate)) *Client {
	a.t.Helper()
	return a.dial(addr, a.identity(host, change...))
}

func (a *authority) dial(addr string, id *Identity) *Client {
	c := DialTLS(addr, "n2", id, 10*time.Second)
	a.t.Cleanup(func() { c.Close() })
	return c
}
