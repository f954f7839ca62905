package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/hookhost/hookhost/hostapi"
)

// Peer is the other end of a connection: a process on the unix socket, a host over TLS. Nothing
// that the peer sends can change it.
//
// The kernel recorded the process when it connected (SO_PEERCRED, unix(7)). Access goes by UID
// alone, since PID may name another process by now. The certificate names the host. PID is 0 then,
// and UID is -1, so that nothing that is a user's is ever a host's.
type Peer struct {
	PID  int
	UID  int
	Host string
}

// root returns true for a peer that may do everything.
func (p Peer) root() bool { return p.Host == "" && p.UID == 0 }

// may returns true if the peer may see and touch what belongs to owner. An owner that is not known
// (-1) is root's.
func (p Peer) may(owner int) bool {
	return p.root() || p.Host == "" && owner >= 0 && p.UID == owner
}

// sees returns true if the peer may know of the job: root, its owner and its hosts may. A job that
// is not known (nil) is root's.
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

// identified is a connection whose peer is known.
type identified interface{ identity() Peer }

type peerKey struct{}

// peerFrom returns the peer of a request's connection. The peer is not known on a connection that
// did not come through a Listener. Then nobody may do anything.
func peerFrom(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}

// access decides from the peer alone whether a call may be made at all. A call that lets hosts in
// decides further by Peer.Host.
type access func(Peer) error

func anybody(Peer) error { return nil }

func usersOnly(p Peer) error {
	if p.Host != "" {
		return denied("%s: users of this host only", p)
	}
	return nil
}

func hostsOnly(p Peer) error {
	if p.Host == "" {
		return denied("%s: hosts only", p)
	}
	return nil
}

func rootOnly(p Peer) error {
	if !p.root() {
		return denied("%s: root only", p)
	}
	return nil
}

func rootOrHost(p Peer) error {
	if p.Host != "" {
		return nil
	}
	return rootOnly(p)
}

func denied(format string, args ...any) error {
	message := "denied to " + fmt.Sprintf(format, args...)
	return &Error{Status: http.StatusForbidden, Kind: KindDenied, Message: message}
}

// admit returns the peer of a call, or why the call may not be made.
func (s *Server) admit(r *http.Request, may access) (Peer, error) {
	peer, ok := peerFrom(r.Context())
	if !ok {
		message := "denied: the caller is unknown"
		return Peer{}, &Error{Status: http.StatusForbidden, Kind: KindDenied, Message: message}
	}
	if peer.Host != "" {
		if err := checkVersion(r.Header, peer.Host); err != nil {
			return peer, err
		}
		if s.Sisters == nil {
			return peer, denied("%s: this host works with no other", peer)
		}
	}
	return peer, may(peer)
}
