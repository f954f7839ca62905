package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/hookhost/hookhost/hostapi"
)

// Peer is the process at the other end of a connection, as the kernel recorded it when it connected
// (SO_PEERCRED, unix(7)). Nothing that the peer sends can change it. Access goes by UID alone,
// since PID may name another process by now.
type Peer struct {
	PID int
	UID int
}

// root returns true for a peer that may do everything.
func (p Peer) root() bool { return p.UID == 0 }

// may returns true if the peer may see and touch what belongs to owner. An owner that is not known
// (-1) is root's.
func (p Peer) may(owner int) bool {
	return p.root() || owner >= 0 && p.UID == owner
}

// sees returns true if the peer may know of the job: root and its owner may. A job that is not
// known (nil) is root's.
func (p Peer) sees(job *hostapi.Job) bool {
	return p.root() || job != nil && p.may(job.Owner.UID)
}

// String names the peer in messages.
func (p Peer) String() string { return fmt.Sprintf("uid %d", p.UID) }

type peerKey struct{}

// peerFrom returns the peer of a request's connection. The peer is not known on a connection that
// did not come through a Listener. Then nobody may do anything.
func peerFrom(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}

// access decides from the peer alone whether a call may be made at all.
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

// admit returns the peer of a call, or why the call may not be made.
func admit(r *http.Request, may access) (Peer, error) {
	peer, ok := peerFrom(r.Context())
	if !ok {
		message := "denied: the caller is unknown"
		return Peer{}, &Error{Status: http.StatusForbidden, Kind: KindDenied, Message: message}
	}
	return peer, may(peer)
}
