package web

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/passwd"
)

// unixPrefix begins the address of a unix socket.
const unixPrefix = "unix:"

// CheckAddress returns an error for an address that Listen does not accept.
func CheckAddress(address string) error {
	if path, isUnix := strings.CutPrefix(address, unixPrefix); isUnix {
		if !strings.HasPrefix(path, "/") {
			return fmt.Errorf("address %s: the path of a socket begins with /", address)
		}
		return nil
	}
	where, err := netip.ParseAddrPort(address)
	if err != nil || !where.Addr().IsLoopback() {
		return fmt.Errorf("address %s: neither unix:PATH nor a port of the loopback, such as 127.0.0.1:8080", address)
	}
	return nil
}

// IsUnix reports whether an address is a unix socket.
func IsUnix(address string) bool { return strings.HasPrefix(address, unixPrefix) }

// Listen listens on an address. A unix socket has mode 0600 and belongs to owner, a name or a
// number; "" is this process's user. A socket whose server is gone is replaced. Others must not be
// able to write to its directory. They could make Listen change the owner of another file or remove
// that file.
func Listen(address, owner string) (net.Listener, error) {
	if err := CheckAddress(address); err != nil {
		return nil, err
	}
	path, isUnix := strings.CutPrefix(address, unixPrefix)
	if !isUnix {
		return net.Listen("tcp", address)
	}
	uid, err := uidOf(owner)
	if err != nil {
		return nil, err
	}
	if err := disk.CheckDir(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("listen on %s: its directory: %w", path, err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	umask := unix.Umask(0o177)
	l, err := net.Listen("unix", path)
	unix.Umask(umask)
	if err != nil {
		return nil, err
	}
	if uid >= 0 {
		if err := os.Lchown(path, uid, -1); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// uidOf returns the uid of a user, or -1 for "".
func uidOf(owner string) (int, error) {
	if owner == "" {
		return -1, nil
	}
	if uid, err := strconv.ParseUint(owner, 10, 31); err == nil {
		return int(uid), nil
	}
	u, err := passwd.Lookup(owner)
	if err != nil {
		return 0, fmt.Errorf("owner of the socket: %w", err)
	}
	return strconv.Atoi(u.Uid)
}

// removeStale removes a socket whose server is dead, and nothing else.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return nil // listening fails if something else is in the way
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("listen on %s: another hookhost web serves it: stop that one, or name another path", path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// NewToken returns a token that nobody can guess.
func NewToken() string { return rand.Text() }
