package api

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
)

// Peer is who is at the other end of a connection. On the unix socket that is a process, as the kernel recorded it when it
// connected (SO_PEERCRED, unix(7)); access goes by UID alone, since PID may name another process by now. Over TLS it is a host, as its
// certificate names it; PID is 0 and UID and GID are -1 then, so that nothing that is a user's is ever a host's. Nothing that the peer
// sends can change it.
type Peer struct {
	PID  int
	UID  int
	GID  int
	Host string
}

// root tells whether the peer may do everything.
func (p Peer) root() bool { return p.Host == "" && p.UID == 0 }

// may tells whether the peer may see and touch what belongs to owner. An owner that is not known (-1) is root's.
func (p Peer) may(owner int) bool {
	return p.root() || p.Host == "" && owner >= 0 && p.UID == owner
}

// sees tells whether the peer may know of the job: root, its owner and its hosts may. A job that is not known (nil) is root's.
func (p Peer) sees(job *hostapi.Job) bool {
	if p.root() || job == nil {
		return p.root()
	}
	return p.may(job.Owner.UID) || p.Host != "" && isHostOf(job, p.Host)
}

// String names the peer in messages.
func (p Peer) String() string {
	switch {
	case p.Host != "":
		return "host " + p.Host
	case p.UID < 0:
		return "an unknown host"
	}
	return fmt.Sprintf("uid %d", p.UID)
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
	return Peer{PID: int(cred.Pid), UID: int(cred.Uid), GID: int(cred.Gid)}, nil
}

type peerKey struct{}

func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(identified); ok {
		return context.WithValue(ctx, peerKey{}, c.identity())
	}
	return ctx
}

// identified is a connection of which is known who is at its other end.
type identified interface{ identity() Peer }

// peerFrom returns false on a connection that did not come through a Listener: then nobody may do anything.
func peerFrom(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}
