package sister

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
	"github.com/hookhost/hookhost/internal/must"
)

// issue makes certificates of hosts.
func issue(dir string, force bool, hosts ...string) error {
	list, err := Certificates(dir, hosts)
	if err != nil {
		return err
	}
	return Issue(dir, list, force, time.Now())
}

func TestIssuedCertificatesAreThoseOfTheirHosts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	now := time.Now()
	list, err := Certificates(dir, []string{"n1.cluster,n1-ib,10.0.0.1,fd00::1", "n2"})
	must.NoError(t, err)
	must.NoError(t, Issue(dir, list, false, now))
	for name, mode := range map[string]os.FileMode{
		".": 0o700, "ca.crt": 0o644, "ca.key": 0o600, "n1.cluster.crt": 0o644, "n1.cluster.key": 0o600, "n2.key": 0o600,
	} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want %o", name, info, err, mode)
		}
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "n1.cluster.crt"), filepath.Join(dir, "n1.cluster.key"))
	must.NoError(t, err)
	if got, want := strings.Join(pair.Leaf.DNSNames, " "), "n1.cluster n1 n1-ib"; got != want {
		t.Errorf("names %q, want %q", got, want)
	}
	const day = 24 * time.Hour
	serial := pair.Leaf.SerialNumber
	if d := pair.Leaf.NotAfter.Sub(now); d < 364*day || d > 367*day || serial.BitLen() < 64 {
		t.Errorf("valid for %v, serial %v", d, serial)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	must.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		for _, name := range []string{"n1.cluster", "n1", "n1-ib", "10.0.0.1", "fd00::1"} {
			_, err := pair.Leaf.Verify(x509.VerifyOptions{
				DNSName: name, Roots: pool, KeyUsages: []x509.ExtKeyUsage{use},
			})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, c := range list {
		if _, err := config.Parse([]byte(c.Section("/etc/hookhost")), config.Here{}); err != nil {
			t.Errorf("%v in\n%s", err, c.Section("/etc/hookhost"))
		}
	}

	// The daemon can use them, and knows its name.
	id, err := api.LoadIdentity(api.TLSFiles{
		CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "n1.cluster.crt"),
		Key: filepath.Join(dir, "n1.cluster.key"),
	})
	if err != nil || id.Name() != "n1.cluster" {
		t.Errorf("identity %v, %v", id, err)
	}

	// Nothing is overwritten, and one name that is there keeps all from being made; --force keeps
	// the CA.
	if err := issue(dir, false, "n3", "n2"); err == nil {
		t.Error("n2 was made again")
	}
	if _, err := os.Stat(filepath.Join(dir, "n3.crt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("n3.crt: %v", err)
	}
	if err := issue(dir, true, "n3", "n2"); err != nil {
		t.Error(err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, "ca.crt")); err != nil || !bytes.Equal(now, text) {
		t.Errorf("ca.crt has changed: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestCertificateOfNoHostOrWithoutItsCAIsRefused(t *testing.T) {
	for _, host := range []string{"", "10.0.0.1", "a/b", "../x", "n1,", "n1,a b", "*.cluster", "ca", "n1,x\ny", "-n1"} {
		if _, err := Certificates(t.TempDir(), []string{"n1", host}); err == nil {
			t.Errorf("%q: taken", host)
		}
	}
	// A CA without its key, or with another one, signs nothing.
	dir := t.TempDir()
	must.NoError(t, issue(dir, false, "n1"))
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.NoError(t, err)
	b, err := x509.MarshalPKCS8PrivateKey(other)
	must.NoError(t, err)
	must.NoError(t, writePEM(filepath.Join(dir, "ca.key"), "PRIVATE KEY", b, 0o600))
	if err := issue(dir, false, "n2"); err == nil || !strings.Contains(err.Error(), "not the key") {
		t.Errorf("another key: %v", err)
	}
	must.NoError(t, os.Remove(filepath.Join(dir, "ca.key")))
	if err := issue(dir, false, "n2"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no key: %v", err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "n2*")); slices.Contains(names, "n2.crt") {
		t.Error("n2 has a certificate")
	}
}

// The other hosts would take this one for somebody else.
func TestCertificateOfAnotherHostIsRefused(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, issue(dir, false, "n1", "n2"))
	const other = "sister.cert: the certificate is for n2, this node is n1"
	for node, want := range map[string]string{"n2": "", "n1": other} {
		files := config.Sister{CA: dir + "/ca.crt", Cert: dir + "/n2.crt", Key: dir + "/n2.key"}
		_, err := LoadIdentity(files, node)
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("on %s: %v, want %q", node, err, want)
		}
	}
}
