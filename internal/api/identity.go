package api

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hookhost/hookhost/internal/pbs"
)

// TLSFiles names PEM files: who signs for hosts, this host's certificate and its key.
type TLSFiles struct{ CA, Cert, Key string }

// Identity is how this host proves to others who it is, and how it knows them. The system's own
// list of CAs counts for nothing. The files are looked at when a connection is made, and when
// Reload is called. An identity is safe for concurrent use.
type Identity struct {
	// Reread, if set, is called when changed files were read again; with an error what was there
	// before stays in force. Set it before the first connection.
	Reread func(error)

	files TLSFiles
	mu    sync.Mutex
	held  *credentials
	seen  [3]stamp // of the files when they were last read, whatever came of it
}

// credentials are what the files held at one time. They are never changed.
type credentials struct {
	pair tls.Certificate
	pool *x509.CertPool
	name string
}

// stamp tells one version of a file from the next.
type stamp struct {
	inode uint64
	size  int64
	mtime time.Time
}

// LoadIdentity reads the files. LoadIdentity fails if a file is missing or not what it should be,
// or if key and certificate do not belong together. The certificate has to name a host and to be of
// the CA. The key has to be root's or this user's, and nobody but its owner and group may read it.
func LoadIdentity(files TLSFiles) (*Identity, error) {
	i := &Identity{files: files}
	if err := i.Reload(); err != nil {
		return nil, err
	}
	return i, nil
}

// Name returns the host that the certificate is for.
func (i *Identity) Name() string { return i.current().name }

// ExpiresSoon is how long before the end of a certificate that end is worth a word.
const ExpiresSoon = 14 * 24 * time.Hour

// Expires returns the moment from which no host believes the certificate any more.
func (i *Identity) Expires() time.Time { return i.current().pair.Leaf.NotAfter }

// Reload reads the files again. On an error what was there before stays in force.
func (i *Identity) Reload() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.read(stampsOf(i.files))
}

func (i *Identity) read(seen [3]stamp) error {
	i.seen = seen // of before: a file that changes while it is read is read once more
	held, err := i.files.load()
	if err == nil {
		i.held = held
	}
	return err
}

// current returns what is in force, after a look at the files.
func (i *Identity) current() *credentials {
	i.mu.Lock()
	defer i.mu.Unlock()
	if seen := stampsOf(i.files); seen != i.seen {
		if err := i.read(seen); i.Reread != nil {
			i.Reread(err)
		}
	}
	return i.held
}

func stampsOf(files TLSFiles) (seen [3]stamp) {
	for n, path := range []string{files.CA, files.Cert, files.Key} {
		if info, err := os.Stat(path); err == nil {
			seen[n] = stamp{size: info.Size(), mtime: info.ModTime()}
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				seen[n].inode = st.Ino
			}
		}
	}
	return seen
}

func (f TLSFiles) load() (*credentials, error) {
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, err
	}
	c := &credentials{pool: x509.NewCertPool()}
	if !c.pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("read %s: no certificate in it", f.CA)
	}
	cert, err := os.ReadFile(f.Cert)
	if err != nil {
		return nil, err
	}
	key, err := readKey(f.Key)
	if err != nil {
		return nil, err
	}
	if c.pair, err = tls.X509KeyPair(cert, key); err != nil {
		return nil, fmt.Errorf("read %s with %s: %w", f.Cert, f.Key, err)
	}
	if c.name, err = hostOf(c.pair.Leaf); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Cert, err)
	}
	// An expired one is no reason not to start: it shows where it is used, and a new one is taken
	// over as it comes.
	err = c.verify(c.chain(), x509.ExtKeyUsageAny)
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); err != nil &&
		!(ok && invalid.Reason == x509.Expired) {
		return nil, fmt.Errorf("read %s with %s: %w", f.Cert, f.CA, err)
	}
	return c, nil
}

// readKey looks at the very file that it reads.
func readKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o027 != 0 {
		return nil, fmt.Errorf("read %s: mode %v: want a file that others than its owner cannot write nor others "+
			"than its group read: chmod 600", path, mode)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("read %s: it belongs to uid %d, want root", path, st.Uid)
	}
	b := make([]byte, 64<<10)
	n, err := f.Read(b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b[:n], nil
}

func (c *credentials) chain() []*x509.Certificate {
	chain := []*x509.Certificate{c.pair.Leaf}
	for _, der := range c.pair.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			chain = append(chain, cert)
		}
	}
	return chain
}

// verify reports whether the CA answers for the first certificate of the chain.
func (c *credentials) verify(chain []*x509.Certificate, use x509.ExtKeyUsage) error {
	if len(chain) == 0 {
		return errors.New("no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: c.pool, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{use}})
	return err
}

// hostOf returns the host that a certificate is for: its first DNS name. The common name counts for
// nothing, and a pattern such as *.cluster names no host.
func hostOf(leaf *x509.Certificate) (string, error) {
	if len(leaf.DNSNames) == 0 {
		return "", errors.New("the certificate names no host: it has no DNS name (subjectAltName)")
	}
	name := leaf.DNSNames[0]
	if !pbs.IsHostName(name) {
		return "", fmt.Errorf("the certificate names no host: %q is first of its DNS names", name)
	}
	return name, nil
}

// server is how this host answers others. The host asks each for a certificate at each connection.
// Tickets are not given: they would stand for a certificate that has expired meanwhile.
func (i *Identity) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := i.current()
			return &tls.Config{
				MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
				Certificates: []tls.Certificate{c.pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: c.pool,
				VerifyConnection: func(s tls.ConnectionState) error {
					_, err := hostOf(s.PeerCertificates[0])
					return err
				},
			}, nil
		},
	}
}

// client is how this host calls another. PBS's names need n1 to be n1.cluster, which the standard
// check of a name does not know. So the whole check is made here, and nothing of it left out.
func (i *Identity) client(host string) *tls.Config {
	c := i.current()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: host, InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.pair, nil },
		VerifyConnection: func(s tls.ConnectionState) error {
			if err := c.verify(s.PeerCertificates, x509.ExtKeyUsageServerAuth); err != nil {
				return err
			}
			return namesHost(s.PeerCertificates[0], host)
		},
	}
}

// namesHost reports whether a certificate is host's.
func namesHost(leaf *x509.Certificate, host string) error {
	err := leaf.VerifyHostname(host)
	for _, name := range leaf.DNSNames {
		if err == nil || pbs.SameHost(name, host) {
			return nil
		}
	}
	return err
}
