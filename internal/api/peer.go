package api

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Peer is the process at the other end of a connection as the kernel recorded it when it connected (SO_PEERCRED,
// unix(7)). Nothing that the peer sends can change it. Access goes by UID; PID is for messages, since it may name
// another process by now.
type Peer struct {
	PID int
	UID int
	GID int
}

// root tells whether the peer may do everything.
func (p Peer) root() bool { return p.UID == 0 }

// may tells whether the peer may see and touch what belongs to owner. An owner that is not known (-1) is root's.
func (p Peer) may(owner int) bool { return p.root() || owner >= 0 && p.UID == owner }

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
	return Peer{PID: int(cred.Pid), UID: int(cred.Uid), GID: int(cred.Gid)}, nil
}

type peerKey struct{}

func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*peerConn); ok {
		return context.WithValue(ctx, peerKey{}, c.peer)
	}
	return ctx
}

// peerFrom returns false on a connection that did not come through a Listener: then nobody may do anything.
func peerFrom(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}
