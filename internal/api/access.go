package api

import "net/http"

// access decides from the peer alone whether a call may be made at all. What a host may do beyond that is the call's own affair: one
// that lets hosts in looks at Peer.Host.
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

// admit returns who makes a call, or why it may not be made.
func (s *Server) admit(r *http.Request, may access) (Peer, error) {
	peer, ok := peerFrom(r.Context())
	if !ok {
		return Peer{}, &Error{Status: http.StatusForbidden, Kind: KindDenied, Message: "denied: the caller is unknown"}
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
