package config

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// Metrics configures where, besides its socket, the daemon serves its metrics.
type Metrics struct {
	Listen string `toml:"listen" json:"listen"`
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
	if m.Listen == "" {
		return nil
	}
	err := checkAddress(m.Listen)
	host, _, _ := net.SplitHostPort(m.Listen)
	if err == nil && host != "" && net.ParseIP(host) == nil { // resolving a name may take long
		err = errors.New("want IP:PORT or :PORT")
	}
	if err != nil {
		return fmt.Errorf("metrics.listen = %q: %w", m.Listen, err)
	}
	return nil
}

// checkAddress accepts HOST:PORT; HOST may be empty.
func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return errors.New("want HOST:PORT or :PORT")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("port %q: want 1 to 65535", port)
	}
	return nil
}
