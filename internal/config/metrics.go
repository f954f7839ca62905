package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
)

// Metrics configures where, besides its socket, the daemon serves its metrics, and their names.
type Metrics struct {
	Listen string   `toml:"listen" json:"listen"`
	Names  []string `toml:"names" json:"names"`
}

// Address returns the IP:PORT to listen on, or "". A port without an address means the loopback
// address.
func (m Metrics) Address() string {
	host, port, err := net.SplitHostPort(m.Listen)
	if err != nil || host != "" { // check has refused invalid addresses
		return m.Listen
	}
	return net.JoinHostPort("127.0.0.1", port)
}

func (m Metrics) check() error {
	for i, name := range m.Names {
		switch name {
		case "pbs", "jobstats", "ceems":
		default:
			return fmt.Errorf("metrics.names: %q: want pbs, jobstats or ceems", name)
		}
		if slices.Contains(m.Names[:i], name) {
			return fmt.Errorf("metrics.names: %q twice", name)
		}
	}
	if m.Listen == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(m.Listen)
	if err != nil || host != "" && net.ParseIP(host) == nil { // resolving a name may take long
		return fmt.Errorf("metrics.listen = %q: want IP:PORT or :PORT", m.Listen)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("metrics.listen = %q: port %q: want 1 to 65535", m.Listen, port)
	}
	return nil
}
