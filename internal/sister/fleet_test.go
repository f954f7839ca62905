package sister

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

// identities returns one certificate that all sisters of a test share, for every name they have,
// and n1's.
func identities(t testing.TB, names []string) (sisters, n1 *api.Identity) {
	t.Helper()
	dir := t.TempDir()
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must.NoError(t, err)
		return key
	}
	notBefore, notAfter := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test"},
		NotBefore:             notBefore,
		NotAfter:              notAfter,
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	caKey := newKey()
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(dir, name)
		must.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600))
		return path
	}
	sign := func(c *x509.Certificate, key *ecdsa.PrivateKey) []byte {
		der, err := x509.CreateCertificate(rand.Reader, c, ca, &key.PublicKey, caKey)
		must.NoError(t, err)
		return der
	}
	files := api.TLSFiles{CA: write("ca.crt", "CERTIFICATE", sign(ca, caKey))}
	identity := func(names ...string) *api.Identity {
		key := newKey()
		der, err := x509.MarshalPKCS8PrivateKey(key)
		must.NoError(t, err)
		crt := &x509.Certificate{
			SerialNumber: big.NewInt(2),
			DNSNames:     names,
			NotBefore:    notBefore,
			NotAfter:     notAfter,
			ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		files.Cert = write(names[0]+".crt", "CERTIFICATE", sign(crt, key))
		files.Key = write(names[0]+".key", "PRIVATE KEY", der)
		id, err := api.LoadIdentity(files)
		must.NoError(t, err)
		return id
	}
	return identity(names...), identity("n1")
}

// farHost is another host, as far as it is asked.
type farHost struct {
	api.Sisters
	apiJobs
	handle func(context.Context, *hostapi.Request) (*hostapi.Outcome, error)
	job    func(id string) (api.Job, error)
	report func(id string) (json.RawMessage, error)
}

// apiJobs is api.Jobs under a name that is not one of its methods.
type apiJobs interface{ api.Jobs }

func (h farHost) MayHead(string) bool { return true }
func (h farHost) AllowRoot() bool     { return true }
func (h farHost) Handle(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.handle(ctx, req)
}

func (h farHost) HandleUser(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.handle(ctx, req)
}

func (h farHost) Job(_ context.Context, id string) (api.Job, error) { return h.job(id) }
func (h farHost) Report(_ context.Context, id string, _ func(*hostapi.Job) bool) (json.RawMessage, error) {
	return h.report(id)
}

// serve starts a sister that carries out events and returns its address.
func serve(
	t testing.TB,
	name string,
	id *api.Identity,
	handle func(context.Context, *hostapi.Request) (*hostapi.Outcome, error),
) string {
	t.Helper()
	return serveHost(t, name, id, farHost{handle: handle})
}

// serveHost starts another host and returns its address.
func serveHost(t testing.TB, name string, id *api.Identity, h farHost) string {
	t.Helper()
	l, err := api.ListenTLS("127.0.0.1:0", id, nil)
	must.NoError(t, err)
	s := api.NewServer(h, h, nil, nil)
	s.Host, s.Sisters, s.ErrorLog = name, h, log.New(io.Discard, "", 0)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(s.Shutdown(ctx), <-served); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func names(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("s%d", i+1))
	}
	return list
}

func fleet(t testing.TB, id *api.Identity, s config.Sister) *Fleet {
	t.Helper()
	for _, limit := range []*config.Duration{&s.Connect, &s.Answer} {
		if *limit == 0 {
			*limit = seconds(30)
		}
	}
	f := NewFleet(s, id)
	t.Cleanup(f.Close) // before the servers' end
	return f
}

func seconds(n int) config.Duration { return config.Duration(n) * config.Duration(time.Second) }

func endOf(id string) *hostapi.Request {
	return &hostapi.Request{Event: hostapi.EventEnd, Run: thisRun, Job: &hostapi.Job{ID: id}}
}

// sisters starts n of them; each takes a while to answer, and the first ones answer only when as
// many as may have been called.
func sisters(t testing.TB, n int, takes time.Duration) (list []string, f *Fleet, most *atomic.Int64) {
	list = names(n)
	theirs, ours := identities(t, list)
	var now atomic.Int64
	most = new(atomic.Int64)
	at := map[string]string{}
	full := make(chan struct{})
	open := sync.OnceFunc(func() { close(full) })
	for _, name := range list {
		at[name] = serve(t, name, theirs, func(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
			here := now.Add(1)
			defer now.Add(-1)
			if here >= int64(min(64, n)) {
				open()
			}
			select {
			case <-full:
			case <-time.After(2 * time.Minute):
				return nil, fmt.Errorf("only %d were called at one time", most.Load())
			}
			for m := most.Load(); here > m && !most.CompareAndSwap(m, here); m = most.Load() {
			}
			time.Sleep(takes)
			return &hostapi.Outcome{Message: name + " " + req.Head}, nil
		})
	}
	f = fleet(t, ours, config.Sister{Hosts: at, Width: 64, Connect: seconds(120), Answer: seconds(180)})
	return list, f, most
}

// A thousand sisters are told as many at once as the width says, never more, and each answer is its
// host's own. How long that takes is the machine's affair.
func TestThousandSisters(t *testing.T) {
	n, takes := 1000, 10*time.Millisecond
	if testing.Short() {
		n = 100
	}
	list, f, most := sisters(t, n, takes)
	for _, what := range []string{"with handshakes", "on open connections"} {
		began := time.Now()
		answers := f.Send(t.Context(), endOf("1.srv"), list)
		took := time.Since(began)
		for _, name := range list {
			if a := answers[name]; a.Err != nil || a.Outcome.Message != name+" n1" {
				t.Fatalf("%s: %+v, %v", name, a.Outcome, a.Err)
			}
		}
		t.Logf("%d sisters that take %v each, %s: %v", n, takes, what, took)
		if m := most.Load(); len(answers) != n || m != 64 {
			t.Errorf("%d answers, %d at a time; want %d and 64", len(answers), m, n)
		}
	}
}

func BenchmarkSend(b *testing.B) {
	for _, n := range []int{1, 64, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			list, f, _ := sisters(b, n, 10*time.Millisecond)
			f.Send(b.Context(), endOf("1.srv"), list)
			for b.Loop() {
				f.Send(b.Context(), endOf("1.srv"), list)
			}
		})
	}
}

// A call that failed may have done something: that is never guessed.
func TestDoubtfulCallIsNotGuessed(t *testing.T) {
	list := names(7)
	theirs, ours := identities(t, list)
	hang := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(1)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	gone.Close()
	accept := func(context.Context, *hostapi.Request) (*hostapi.Outcome, error) { return &hostapi.Outcome{}, nil }
	at := map[string]string{
		"s1": serve(t, "s1", theirs, accept),
		"s2": serve(t, "s2", theirs, func(context.Context, *hostapi.Request) (*hostapi.Outcome, error) {
			return &hostapi.Outcome{Reject: true, Message: "no"}, nil
		}),
		"s3": serve(t, "s3", theirs, func(context.Context, *hostapi.Request) (*hostapi.Outcome, error) {
			return nil, hostapi.Errorf(hostapi.KindBusy, "busy")
		}),
		"s4": gone.Addr().String(),
		"s5": serve(t, "s5", theirs, func(context.Context, *hostapi.Request) (*hostapi.Outcome, error) {
			arrived.Done()
			<-hang
			return nil, nil
		}),
		"s6": serve(t, "s6", theirs, func(context.Context, *hostapi.Request) (*hostapi.Outcome, error) {
			panic(errors.New("dies over it"))
		}),
		"s7": serve(t, "s7", ours, accept), // it proves to be n1
	}
	t.Cleanup(func() { close(hang) })
	f := fleet(t, ours, config.Sister{Hosts: at, Width: 4, Connect: seconds(10), Answer: seconds(1)})
	for _, host := range list { // so the connection has its time, and all together a second more than none
		f.client(host)
	}
	f.conf.Connect = seconds(2)
	answers := f.Send(t.Context(), endOf("1.srv"), append(slices.Clone(list), "s1"))
	if answers["s5"].Err == nil || errors.Is(answers["s5"].Err, api.ErrUnsent) {
		t.Fatalf("s5 was not reached: %v", answers["s5"].Err)
	}
	arrived.Wait()
	if got := slices.Sorted(maps.Keys(answers)); !slices.Equal(got, list) {
		t.Fatalf("answers of %v", got)
	}
	for host, want := range map[string]struct {
		text  string
		doubt bool
	}{
		"s3": {"s3: busy", false},
		"s4": {"s4: call host: connect to " + at["s4"] + ": connect: connection refused", false},
		"s5": {"s5: no answer in time", true},
		"s6": {"s6: call host: ", true},
		"s7": {"not s7", false},
	} {
		a := answers[host]
		text := fmt.Sprint(a.Err)
		if a.Err == nil || a.Outcome != nil || errors.Is(a.Err, ErrDoubt) != want.doubt ||
			!strings.HasPrefix(text, host+": ") || !strings.Contains(text, want.text) {
			t.Errorf("%s: %+v, %v; want %q, doubt %t", host, a.Outcome, a.Err, want.text, want.doubt)
		}
	}
	if a := answers["s1"]; a.Err != nil || a.Outcome.Reject {
		t.Errorf("s1: %+v", a)
	}
	if a := answers["s2"]; a.Err != nil || !a.Outcome.Reject {
		t.Errorf("s2: %+v", a)
	}
}

// When the caller has waited long enough, hosts whose turn has not come are not called at all,
// which is no doubt.
func TestEachEnds(t *testing.T) {
	f := fleet(t, nil, config.Sister{Width: 2})
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int64
	errs := f.Each(ctx, names(10), func(ctx context.Context, host string, _ *api.Client) error {
		if calls.Add(1) == 2 {
			cancel()
		}
		<-ctx.Done()
		return ctx.Err()
	})
	doubt := 0
	for _, err := range errs {
		if errors.Is(err, ErrDoubt) {
			doubt++
		} else if !strings.Contains(err.Error(), "not called") {
			t.Error(err)
		}
	}
	if len(errs) != 10 || doubt != 2 || calls.Load() != 2 {
		t.Errorf("%d errors, %d in doubt, %d calls", len(errs), doubt, calls.Load())
	}
}
