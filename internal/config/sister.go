package config

import (
	"fmt"
	"net"
	"path"
	"strconv"
	"time"

	"github.com/hookhost/hookhost/internal/pbs"
)

// Sister configures the way between this host and the hookhosts of others. Its zero value is not a
// configuration: start from Default.
type Sister struct {
	Listen string `toml:"listen" json:"listen"`
	Port   int    `toml:"port" json:"port"`
	CA     string `toml:"ca" json:"ca"`
	Cert   string `toml:"cert" json:"cert"`
	Key    string `toml:"key" json:"key"`
	// Heads is the one list that gives other hosts power here.
	Heads     []string `toml:"heads" json:"heads"`
	AllowRoot bool     `toml:"allow_root" json:"allow_root"`

	Width       int      `toml:"width" json:"width"`
	Connect     Duration `toml:"connect_timeout" json:"connect_timeout"`
	Answer      Duration `toml:"answer_timeout" json:"answer_timeout"`
	Retry       Duration `toml:"retry" json:"retry"`
	HeadTimeout Duration `toml:"head_timeout" json:"head_timeout"`

	Hosts map[string]string `toml:"hosts,omitempty" json:"hosts,omitempty"`
}

// MayHead is true for a host that may begin jobs here.
func (s Sister) MayHead(host string) bool {
	for _, pattern := range s.Heads {
		if match, err := path.Match(pattern, host); err == nil && match {
			return true
		}
	}
	return false
}

// Configured reports whether this host has a certificate, and so can talk to others.
func (s Sister) Configured() bool { return s.CA != "" }

// check returns the first value that cannot be meant, by its key.
func (s Sister) check() error {
	const day = 24 * time.Hour
	files := 0
	for _, f := range []struct{ key, path string }{{"ca", s.CA}, {"cert", s.Cert}, {"key", s.Key}} {
		if f.path == "" {
			continue
		}
		if files++; !path.IsAbs(f.path) {
			return fmt.Errorf("sister.%s = %q: want an absolute path", f.key, f.path)
		}
	}
	if files != 0 && files != 3 {
		return fmt.Errorf("sister.ca = %q, cert = %q, key = %q: want all three or none", s.CA, s.Cert, s.Key)
	}
	if s.Listen != "" {
		if err := checkAddress(s.Listen); err != nil {
			return fmt.Errorf("sister.listen = %q: %w", s.Listen, err)
		}
		if files == 0 {
			return fmt.Errorf("sister.listen = %q: needs ca, cert and key", s.Listen)
		}
	}
	for _, pattern := range s.Heads {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("sister.heads: %q is not a pattern of host names", pattern)
		}
	}
	for name, address := range s.Hosts {
		if !pbs.IsHostName(name) {
			return fmt.Errorf("sister.hosts: %q is not a host name", name)
		}
		host, _, _ := net.SplitHostPort(address)
		if err := checkAddress(address); err != nil || host == "" {
			return fmt.Errorf("sister.hosts.%s = %q: want HOST:PORT", name, address)
		}
	}
	silent := time.Duration(s.HeadTimeout)
	return firstBroken(
		rule{"sister.port", s.Port, s.Port >= 1 && s.Port <= 65535, "1 to 65535"},
		rule{"sister.width", s.Width, s.Width >= 1 && s.Width <= 4096, "1 to 4096"},
		between("sister.connect_timeout", s.Connect, 100*time.Millisecond, time.Minute),
		between("sister.answer_timeout", s.Answer, time.Second, time.Hour),
		between("sister.retry", s.Retry, time.Second, day),
		rule{"sister.head_timeout", silent, silent == 0 || silent >= time.Minute && silent <= 366*day,
			fmt.Sprintf("0s, or %v to %v", time.Minute, 366*day)},
	)
}

// checkAddress wants HOST:PORT; HOST may be empty.
func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("want HOST:PORT or :PORT")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("port %q: want 1 to 65535", port)
	}
	return nil
}
