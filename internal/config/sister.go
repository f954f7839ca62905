package config

import (
	"fmt"
	"net"
	"path"
	"strconv"
	"time"

	"github.com/hookhost/hookhost/internal/pbs"
)

// Sister configures the way between this host and the hookhosts of others. Its zero value is not a configuration: start from
// DefaultSister.
type Sister struct {
	Listen string `toml:"listen" json:"listen" comment:"Where other hosts reach this one: \":15020\", or HOST:PORT for one address. Empty: nowhere."`
	Port   int    `toml:"port" json:"port" comment:"Where other hosts listen, unless [sister.hosts] says otherwise."`
	CA     string `toml:"ca" json:"ca" comment:"Certificates (PEM) of who signs for hosts: certificates of others count for nothing. ca, cert and key: all three or none."`
	Cert   string `toml:"cert" json:"cert" comment:"This host's certificate (PEM), for its name in exec_vnode."`
	Key    string `toml:"key" json:"key" comment:"Its key (PEM): root's, and nobody else's to read."`
	// Heads is the one list that gives other hosts power here: see the comment that config show prints.
	Heads     []string `toml:"heads" json:"heads" comment:"Hosts that may begin and end jobs of any user here, by the name in their certificate; patterns such as \"n[0-9]*\" are allowed. Empty: none. pbs_mom needs none."`
	AllowRoot bool     `toml:"allow_root" json:"allow_root" comment:"Let such jobs be root's."`

	Width       int      `toml:"width" json:"width" comment:"How many hosts are talked to at the same time."`
	Connect     Duration `toml:"connect_timeout" json:"connect_timeout" comment:"How long a host may take to be reached."`
	Answer      Duration `toml:"answer_timeout" json:"answer_timeout" comment:"How long it may take to answer; hooks may take 90s."`
	Retry       Duration `toml:"retry" json:"retry" comment:"How often the host that began a job here, its head, is asked whether the job lives."`
	HeadTimeout Duration `toml:"head_timeout" json:"head_timeout" comment:"A job whose head has not answered for so long ends here. 0s: never."`

	Hosts map[string]string `toml:"hosts,omitempty" json:"hosts,omitempty" comment:"Hosts that are not reached by their name and port: n2 = \"10.0.0.2:15020\"."`
}

// DefaultSister returns what holds where the file says nothing: no other host is talked to.
func DefaultSister() Sister {
	return Sister{Port: 15020, Heads: []string{}, Width: 64, Connect: Duration(5 * time.Second), Answer: Duration(100 * time.Second),
		Retry: Duration(time.Minute), HeadTimeout: Duration(72 * time.Hour)}
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

// Configured tells whether this host has a certificate, and so can talk to others.
func (s Sister) Configured() bool { return s.CA != "" }

const maxHeadTimeout = 366 * 24 * time.Hour

// check returns the first value that cannot be meant, by its key.
func (s Sister) check() error {
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
	if s.Port < 1 || s.Port > 65535 {
		return fmt.Errorf("sister.port = %d: want 1 to 65535", s.Port)
	}
	for _, pattern := range s.Heads {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("sister.heads: %q is not a pattern of host names", pattern)
		}
	}
	if s.Width < 1 || s.Width > 4096 {
		return fmt.Errorf("sister.width = %d: want 1 to 4096", s.Width)
	}
	for _, d := range []struct {
		key       string
		value     Duration
		low, high time.Duration
	}{
		{"connect_timeout", s.Connect, 100 * time.Millisecond, time.Minute},
		{"answer_timeout", s.Answer, time.Second, time.Hour},
		{"retry", s.Retry, time.Second, 24 * time.Hour},
	} {
		if v := time.Duration(d.value); v < d.low || v > d.high {
			return fmt.Errorf("sister.%s = %v: want %v to %v", d.key, v, d.low, d.high)
		}
	}
	if v := time.Duration(s.HeadTimeout); v != 0 && (v < time.Minute || v > maxHeadTimeout) {
		return fmt.Errorf("sister.head_timeout = %v: want 0s, or %v to %v", v, time.Minute, maxHeadTimeout)
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
	return nil
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
