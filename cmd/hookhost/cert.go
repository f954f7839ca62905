package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/pbs"
)

const (
	caYears   = 10
	hostYears = 1
)

func (c *cli) certCommand() *cobra.Command {
	var dir string
	var force bool
	cmd := &cobra.Command{
		Use: "cert --dir DIR HOST[,ALIAS...]...", Short: "Make certificates by which hosts know each other, for trial", Args: nArgs(1, -1),
		Long: `Make a certificate for each HOST, for the [sister] section of its configuration: DIR/HOST.crt and DIR/HOST.key, valid for a year. HOST is
the host's name in exec_vnode; ALIAS is another name, or an address, by which it is reached. DIR/ca.crt and DIR/ca.key sign them; they are
made where they are missing, and are valid for ten years.

This is for trial and for small clusters: whoever reads ca.key can be any host. Keep DIR where only root can read it, copy to each host
its own three files and nothing else, and never ca.key. A site with a CA of its own uses that. Files that are there are kept; --force makes the hosts'
anew, never the CA's.`,
		Example: `  hookhost cert --dir /root/hookhost-ca n1 n2,n2-ib,10.0.0.2
  scp /root/hookhost-ca/{ca.crt,n2.crt,n2.key} n2:/etc/hookhost/`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return misuse(errors.New("cert: --dir is needed"))
			}
			return makeCertificates(cmd.OutOrStdout(), dir, args, force, time.Now())
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "where certificates and keys are kept")
	cmd.Flags().BoolVar(&force, "force", false, "replace the certificates of these hosts")
	return cmd
}

// makeCertificates checks everything first: either all hosts get their files or, but for a failing disk, none does.
func makeCertificates(out io.Writer, dir string, hosts []string, force bool, now time.Time) error {
	var templates []*x509.Certificate
	for _, text := range hosts {
		t, err := hostTemplate(text)
		if err != nil {
			return misuse(fmt.Errorf("cert: %w", err))
		}
		templates = append(templates, t)
		for _, name := range []string{t.DNSNames[0] + ".crt", t.DNSNames[0] + ".key"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); !force && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("cert: %s is there already: --force replaces it", filepath.Join(dir, name))
			}
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cert: %w", err)
	}
	ca, caKey, err := openCA(dir, now)
	if err != nil {
		return fmt.Errorf("cert: %w", err)
	}
	for _, t := range templates {
		t.NotBefore, t.NotAfter = now.Add(-time.Hour), now.AddDate(hostYears, 0, 0) // clocks of hosts differ
		name := filepath.Join(dir, t.DNSNames[0])
		key, err := newCertificate(name+".crt", name+".key", t, ca, caKey)
		if err != nil || key == nil {
			return fmt.Errorf("cert: %w", err)
		}
		at := "/etc/hookhost"
		fmt.Fprintf(out, "# %s: %s, until %s. Copy ca.crt, %[2]s.crt and %[2]s.key to %[4]s there, and in hookhost.toml:\n[sister]\nlisten = \":15020\"\nca = \"%[4]s/ca.crt\"\ncert = \"%[4]s/%[2]s.crt\"\nkey = \"%[4]s/%[2]s.key\"\n",
			name+".crt", t.DNSNames[0], t.NotAfter.Format(time.DateOnly), at)
		fmt.Fprintf(out, "heads = [] # the hosts whose 'hookhost run --host %s' may begin jobs there\n\n", t.DNSNames[0])
	}
	return nil
}

// hostTemplate reads HOST[,ALIAS...]. The first name of a certificate is the one that counts: its host's own.
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

// openCA returns the CA in dir; without one it is made.
func openCA(dir string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	crt, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	_, err := os.Lstat(crt)
	_, keyErr := os.Lstat(keyFile)
	if errors.Is(err, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) {
		t := &x509.Certificate{
			Subject: pkix.Name{CommonName: "hookhost CA made " + now.UTC().Format(time.DateOnly)}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(caYears, 0, 0),
			IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		}
		if _, err := newCertificate(crt, keyFile, t, nil, nil); err != nil {
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
		return nil, nil, fmt.Errorf("%s: not a CA, or not valid any more (until %s)", crt, ca.NotAfter.Format(time.DateOnly))
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

// newCertificate makes a key and its certificate, signed by ca, or by itself when that is nil, and writes both; the key first and
// readable by root alone from its first byte.
func newCertificate(crt, keyFile string, t, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if t.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128)); err != nil {
		return nil, err
	}
	if ca == nil {
		ca, caKey = t, key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, err
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := writePEM(keyFile, "PRIVATE KEY", text, 0o600); err != nil {
		return nil, err
	}
	return key, writePEM(crt, "CERTIFICATE", der, 0o644)
}

func writePEM(path, kind string, b []byte, mode fs.FileMode) error {
	return disk.Replace(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), mode)
}
