package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
)

func TestMakeCertificates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	now := time.Now()
	var out bytes.Buffer
	if err := makeCertificates(&out, dir, []string{"n1.cluster,n1-ib,10.0.0.1,fd00::1", "n2"}, false, now); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{".": 0o700, "ca.crt": 0o644, "ca.key": 0o600, "n1.cluster.crt": 0o644, "n1.cluster.key": 0o600, "n2.key": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want %o", name, info, err, mode)
		}
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "n1.cluster.crt"), filepath.Join(dir, "n1.cluster.key"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(pair.Leaf.DNSNames, " "), "n1.cluster n1 n1-ib"; got != want {
		t.Errorf("names %q, want %q", got, want)
	}
	if d := pair.Leaf.NotAfter.Sub(now); d < 364*24*time.Hour || d > 367*24*time.Hour || pair.Leaf.SerialNumber.BitLen() < 64 {
		t.Errorf("valid for %v, serial %v", d, pair.Leaf.SerialNumber)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		for _, name := range []string{"n1.cluster", "n1", "n1-ib", "10.0.0.1", "fd00::1"} {
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: pool, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	// What is printed is a configuration.
	for part := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n\n") {
		if _, err := config.Parse([]byte(part), config.Here{}); err != nil {
			t.Errorf("%v in\n%s", err, part)
		}
	}

	// The daemon can use them, and knows its name.
	id, err := api.LoadIdentity(api.TLSFiles{CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "n1.cluster.crt"), Key: filepath.Join(dir, "n1.cluster.key")})
	if err != nil || id.Name() != "n1.cluster" {
		t.Errorf("identity %v, %v", id, err)
	}

	// Nothing is overwritten, and one name that is there keeps all from being made; --force keeps the CA.
	again := []string{"n3", "n2"}
	if err := makeCertificates(&out, dir, again, false, now); err == nil {
		t.Error("n2 was made again")
	}
	if _, err := os.Stat(filepath.Join(dir, "n3.crt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("n3.crt: %v", err)
	}
	if err := makeCertificates(&out, dir, again, true, now); err != nil {
		t.Error(err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, "ca.crt")); err != nil || !bytes.Equal(now, text) {
		t.Errorf("ca.crt has changed: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestCertRefuses(t *testing.T) {
	for _, host := range []string{"", "10.0.0.1", "a/b", "../x", "n1,", "n1,a b", "*.cluster", "ca", "n1,x\ny", "-n1"} {
		dir := filepath.Join(t.TempDir(), "ca")
		var exit *exitError
		if err := makeCertificates(&bytes.Buffer{}, dir, []string{"n1", host}, false, time.Now()); !errors.As(err, &exit) || exit.status != exitMisuse {
			t.Errorf("%q: %v, want misuse", host, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q: made %s", host, dir)
		}
	}
	// A CA without its key, or with another one, signs nothing.
	dir := t.TempDir()
	if err := makeCertificates(&bytes.Buffer{}, dir, []string{"n1"}, false, time.Now()); err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKCS8PrivateKey(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := writePEM(filepath.Join(dir, "ca.key"), "PRIVATE KEY", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makeCertificates(&bytes.Buffer{}, dir, []string{"n2"}, false, time.Now()); err == nil || !strings.Contains(err.Error(), "not the key") {
		t.Errorf("another key: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if err := makeCertificates(&bytes.Buffer{}, dir, []string{"n2"}, false, time.Now()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no key: %v", err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "n2*")); slices.Contains(names, "n2.crt") {
		t.Error("n2 has a certificate")
	}
}
