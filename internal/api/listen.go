package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/disk"
)

// Bounds on the connections of users other than root, each and all together. A job has as many
// ranks on a host as the host has cpus, and they attach at once. All users together get at most
// half of the daemon's descriptors, because one person may have many uids (subuid(5)).
const (
	connsPerUser = 1280
	connsOfUsers = 4096
)

// episode is how long refusals must have stopped before the next one counts as new.
const episode = time.Minute

// ErrRunning means that another host serves the socket.
var ErrRunning = errors.New("already running")

// Listener is the host's unix socket. It knows the peer of each connection. If the kernel does not
// name the peer, the connection is closed at once.
type Listener struct {
	// Refused, if set, is called when a connection is refused because there are too many. It is not
	// called again until no connection was refused for a minute.
	Refused func(peer Peer, call string, err error)

	unix    *net.UnixListener
	users   *shares   // root's apart
	refused time.Time // time of the last refusal
}

// Listen creates the socket at path, mode 0666, and its directory, mode 0711, if missing. Everyone
// may connect, and may do what the peer's user may. It replaces the socket of a dead host. If the
// host lives, it fails with ErrRunning. The caller ensures that only one host at a time listens in
// the directory.
func Listen(path string) (*Listener, error) {
	if err := disk.MakeDir(filepath.Dir(path), 0o711); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	socket := net.ListenConfig{Control: refuseFiles}
	l, err := socket.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err // contains "listen unix PATH"
	}
	if err := os.Chmod(path, 0o666); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	most := min(connsOfUsers, descriptors()/2)
	return &Listener{unix: l.(*net.UnixListener), users: &shares{most: most, each: min(connsPerUser, most/2)}}, nil
}

// refuseFiles makes the kernel refuse files that a caller passes through a socket (SCM_RIGHTS,
// unix(7)). Nobody here reads them, so the kernel would close them in this process, which can take
// forever. The option exists since Linux 6.16. Accepted sockets inherit it.
func refuseFiles(_, _ string, socket syscall.RawConn) error {
	var err error
	if err := socket.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 0)
	}); err != nil {
		return err
	}
	if err != nil && !errors.Is(err, unix.ENOPROTOOPT) {
		return fmt.Errorf("set SO_PASSRIGHTS: %w", err)
	}
	return nil
}

// DirectoryLock is the name, without .lock, of the lock that a daemon holds in the directory of its
// socket. The file stays after the daemon has ended.
const DirectoryLock = ".directory"

// HasServed reports whether a host has served the socket at path since the directory was made: it
// may be back in a moment.
func HasServed(path string) bool {
	_, err := os.Lstat(filepath.Join(filepath.Dir(path), DirectoryLock+".lock"))
	return err == nil
}

// removeStale removes a socket on which nobody listens. A file that is not a socket stays, and is
// an error.
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
		p, err := peerOf(conn.(*net.UnixConn)) // the kernel identifies the listener to anyone who connects
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
	// 4294967295 is the kernel's value for an unknown user.
	if cred.Uid == ^uint32(0) {
		return Peer{}, errors.New("identify peer: the kernel does not know its user")
	}
	return Peer{PID: int(cred.Pid), UID: int(cred.Uid)}, nil
}

// Accept returns the next connection whose peer is known and within the bounds for users. Only one
// goroutine at a time may call it.
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

// refuse sends the reason before it hangs up. A new socket's buffer has room for that.
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
