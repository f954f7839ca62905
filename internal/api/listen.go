package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/disk"
)

// Bounds of the connections that users other than root may hold, each and all together. A job has
// as many ranks on a host as the host has cpus, and they attach at once. All users together have
// half of the daemon's descriptors at most, for one person may have many uids (subuid(5)).
const (
	connsPerUser = 1280
	connsOfUsers = 4096
)

// episode is how long no connection is refused before the next that is counts as something new.
const episode = time.Minute

// ErrRunning says that another host serves the socket.
var ErrRunning = errors.New("already running")

// Listener is the host's unix socket. The peer of each connection is known. A connection whose peer
// the kernel does not name is closed unheard.
type Listener struct {
	// Refused, if set, is called with a connection that was refused since there are too many.
	// Further ones are left out until none was refused for a minute.
	Refused func(peer Peer, call string, err error)

	unix    *net.UnixListener
	users   *shares   // root's apart
	refused time.Time // when the last was
}

// Listen creates the socket at path, mode 0666, and its directory, mode 0755, when missing.
// Everybody may connect, and may do what the peer's user may. The socket of a dead host is
// replaced. With a live host Listen fails with ErrRunning. The caller sees to it that one host
// listens in the directory at a time.
func Listen(path string) (*Listener, error) {
	if err := disk.MakeDir(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err // says "listen unix PATH"
	}
	if err := os.Chmod(path, 0o666); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	most := min(connsOfUsers, descriptors()/2)
	return &Listener{unix: l, users: &shares{most: most, each: min(connsPerUser, most/2)}}, nil
}

// DirectoryLock is the name, without .lock, of the lock that a daemon holds in the directory of its
// socket. The file stays when the daemon has gone.
const DirectoryLock = ".directory"

// HasServed reports whether some host has served the socket at path, since the directory was made:
// it may be back in a moment.
func HasServed(path string) bool {
	_, err := os.Lstat(filepath.Join(filepath.Dir(path), DirectoryLock+".lock"))
	return err == nil
}

// removeStale removes a socket that nobody listens on. A file that is not a socket is left alone,
// and is an error.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("listen on %s: there is a file that is not a socket", path)
	}
	if conn, err := net.Dial("unix", path); err == nil {
		defer conn.Close()
		p, err := peerOf(conn.(*net.UnixConn)) // the kernel says who it is to whoever connects
		if err != nil {
			return fmt.Errorf("listen on %s: %w", path, ErrRunning)
		}
		return fmt.Errorf("listen on %s: %w, pid %d", path, ErrRunning, p.PID)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	return nil
}

// peerOf asks the kernel who is at the other end of conn.
func peerOf(conn *net.UnixConn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("identify peer: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return Peer{}, fmt.Errorf("identify peer: %w", err)
	}
	if credErr != nil {
		return Peer{}, fmt.Errorf("identify peer: %w", credErr)
	}
	// 4294967295 is the kernel's "nobody known".
	if cred.Uid == ^uint32(0) {
		return Peer{}, errors.New("identify peer: the kernel does not know its user")
	}
	return Peer{PID: int(cred.Pid), UID: int(cred.Uid)}, nil
}

// Accept returns the next connection whose peer is known and within the number of connections of
// users. Only one goroutine at a time may call it.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.unix.AcceptUnix()
		if err != nil {
			return nil, err
		}
		peer, err := peerOf(conn)
		if err != nil {
			conn.Close()
			continue
		}
		if peer.root() {
			return &peerConn{UnixConn: conn, peer: peer, release: func() {}}, nil
		}
		name := peer.String()
		if err := l.users.enter(name); err != nil {
			l.refuse(conn, peer, err)
			continue
		}
		return &peerConn{UnixConn: conn, peer: peer, release: sync.OnceFunc(func() { l.users.leave(name) })}, nil
	}
}

// refuse says why before it hangs up. A new socket's buffer has room for that.
func (l *Listener) refuse(conn *net.UnixConn, peer Peer, why error) {
	e := errorOf(hostapi.Errorf(hostapi.KindBusy, "%w", why))
	if body, err := json.Marshal(e); err == nil {
		const head = "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: " +
			"close\r\n\r\n"
		fmt.Fprintf(conn, head+"%s\n", e.Status, http.StatusText(e.Status), len(body)+1, body)
	}
	conn.Close()
	now := time.Now()
	if l.Refused != nil && now.Sub(l.refused) > episode {
		l.Refused(peer, "connect", e)
	}
	l.refused = now
}

// Addr returns the socket's address.
func (l *Listener) Addr() net.Addr { return l.unix.Addr() }

// Close stops listening and removes the socket. Connections stay open.
func (l *Listener) Close() error { return l.unix.Close() }

type peerConn struct {
	*net.UnixConn
	peer    Peer
	release func()
}

func (c *peerConn) Close() error {
	c.release()
	return c.UnixConn.Close()
}
