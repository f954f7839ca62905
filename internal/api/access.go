package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/hookhost/hookhost/hostapi"
)

// Peer is the process at the other end of a connection, as the kernel recorded it when it connected
// (SO_PEERCRED, unix(7)). Nothing that the peer sends can change it. Access depends on UID alone,
// because PID may name another process by now.
type Peer struct {
	PID int
	UID int
}

// root reports whether the peer may do everything.
func (p Peer) root() bool { return p.UID == 0 }

// may reports whether the peer may see and change what belongs to owner. An unknown owner (-1)
// counts as root.
func (p Peer) may(owner int) bool {
	return p.root() || owner >= 0 && p.UID == owner
}

// sees reports whether the peer may know of the job: root and its owner may. An unknown job (nil)
// belongs to root.
func (p Peer) sees(job *hostapi.Job) bool {
	return p.root() || job != nil && p.may(job.Owner.UID)
}

// String names the peer in messages.
func (p Peer) String() string { return fmt.Sprintf("uid %d", p.UID) }

type peerKey struct{}

// peerFrom returns the peer of a request's connection. The peer is unknown on a connection that did
// not come through a Listener. An unknown peer may do nothing.
func peerFrom(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}

// access decides from the peer alone whether a call is allowed at all.
type access func(Peer) error

func anybody(Peer) error { return nil }

func rootOnly(p Peer) error {
	if !p.root() {
		return denied("%s: root only", p)
	}
	return nil
}

func denied(format string, args ...any) error {
	message := "denied to " + fmt.Sprintf(format, args...)
	return &Error{Status: http.StatusForbidden, Kind: KindDenied, Message: message}
}

// admit returns the peer of a call, or why the call is not allowed.
func admit(r *http.Request, may access) (Peer, error) {
	peer, ok := peerFrom(r.Context())
	if !ok {
		message := "denied: the caller is unknown"
		return Peer{}, &Error{Status: http.StatusForbidden, Kind: KindDenied, Message: message}
	}
	return peer, may(peer)
}
