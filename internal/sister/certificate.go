package sister

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/pbs"
)

const (
	caYears   = 10
	hostYears = 1
)

// Certificate is one that is to be issued.
type Certificate struct {
	dir      string
	template *x509.Certificate
}

// Host returns the host's own name.
func (c *Certificate) Host() string { return c.template.DNSNames[0] }

// Until returns the last day on which the certificate is valid.
func (c *Certificate) Until() time.Time { return c.template.NotAfter }

// File returns the path of the certificate.
func (c *Certificate) File() string { return filepath.Join(c.dir, c.Host()+".crt") }

func (c *Certificate) key() string { return filepath.Join(c.dir, c.Host()+".key") }

// Section returns the section of the host's configuration, for files that are copied to a directory
// there.
func (c *Certificate) Section(there string) string {
	const section = `[sister]
listen = ":15020"
ca = "%[1]s/ca.crt"
cert = "%[1]s/%[2]s.crt"
key = "%[1]s/%[2]s.key"
heads = [] # the hosts whose 'hookhost run --host %[2]s' may begin jobs there
`
	return fmt.Sprintf(section, there, c.Host())
}

// Certificates reads HOST[,ALIAS...] of each host and makes nothing.
func Certificates(dir string, hosts []string) ([]*Certificate, error) {
	var list []*Certificate
	for _, text := range hosts {
		t, err := hostTemplate(text)
		if err != nil {
			return nil, err
		}
		list = append(list, &Certificate{dir: dir, template: t})
	}
	return list, nil
}

// Issue writes certificates and keys, and a CA if there is none. Either all hosts get their files
// or, but for a failing disk, none does. force replaces the files of hosts, never the CA's.
func Issue(dir string, list []*Certificate, force bool, now time.Time) error {
	for _, c := range list {
		for _, name := range []string{c.File(), c.key()} {
			if _, err := os.Lstat(name); !force && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s is there already: --force replaces it", name)
			}
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, caKey, err := openCA(dir, now)
	if err != nil {
		return err
	}
	for _, c := range list {
		t := c.template
		t.NotBefore, t.NotAfter = now.Add(-time.Hour), now.AddDate(hostYears, 0, 0) // clocks of hosts differ
		if err := newCertificate(c.File(), c.key(), t, ca, caKey); err != nil {
			return err
		}
	}
	return nil
}

// hostTemplate reads HOST[,ALIAS...]. The first name of a certificate is the one that counts: its
// host's own.
func hostTemplate(text string) (*x509.Certificate, error) {
	t := &x509.Certificate{
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	names := strings.Split(text, ",")
	if _, err := netip.ParseAddr(names[0]); err == nil {
		return nil, fmt.Errorf("host %q: want a name first, as in exec_vnode", names[0])
	}
	for i, name := range names {
		if ip, err := netip.ParseAddr(name); err == nil && ip.Zone() == "" {
			t.IPAddresses = append(t.IPAddresses, ip.AsSlice())
			continue
		}
		if !pbs.IsHostName(name) || name == "ca" {
			return nil, fmt.Errorf("host %q: not a host name", name)
		}
		short, _, _ := strings.Cut(name, ".")
		for _, n := range []string{name, short} {
			if n == short && i > 0 && n != name {
				continue // an alias is the name it is
			}
			if !slices.Contains(t.DNSNames, n) {
				t.DNSNames = append(t.DNSNames, n)
			}
		}
	}
	t.Subject = pkix.Name{CommonName: t.DNSNames[0]}
	return t, nil
}

// openCA returns the CA in dir, and makes a missing one.
func openCA(dir string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	crt, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	_, err := os.Lstat(crt)
	_, keyErr := os.Lstat(keyFile)
	if errors.Is(err, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) {
		t := &x509.Certificate{
			Subject:   pkix.Name{CommonName: "hookhost CA made " + now.UTC().Format(time.DateOnly)},
			NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(caYears, 0, 0),
			IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		}
		if err := newCertificate(crt, keyFile, t, nil, nil); err != nil {
			return nil, nil, err
		}
	}
	text, err := readPEM(crt, "CERTIFICATE")
	if err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", crt, err)
	}
	if !ca.IsCA || now.After(ca.NotAfter) {
		until := ca.NotAfter.Format(time.DateOnly)
		return nil, nil, fmt.Errorf("%s: not a CA, or not valid any more (until %s)", crt, until)
	}
	if text, err = readPEM(keyFile, "PRIVATE KEY"); err != nil {
		return nil, nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(ca.PublicKey) {
		return nil, nil, fmt.Errorf("%s: not the key of ca.crt", keyFile)
	}
	return ca, key, nil
}

func readPEM(path, kind string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s: holds no %s", path, kind)
	}
	return block.Bytes, nil
}

// newCertificate makes a key and its certificate, signed by ca, or by itself if ca is nil. The key
// is written first. Root alone may read the key from its first byte on.
func newCertificate(crt, keyFile string, t, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if t.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128)); err != nil {
		return err
	}
	if ca == nil {
		ca, caKey = t, key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca, &key.PublicKey, caKey)
	if err != nil {
		return err
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(keyFile, "PRIVATE KEY", text, 0o600); err != nil {
		return err
	}
	return writePEM(crt, "CERTIFICATE", der, 0o644)
}

func writePEM(path, kind string, b []byte, mode fs.FileMode) error {
	return disk.Replace(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), mode)
}
