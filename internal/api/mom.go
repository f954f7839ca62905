package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// MoM carries out events of pbs_mom as its hook brings them: MoM's own input file in, and what the
// hook is to do out.
type MoM interface {
	// Event carries out one event. ctx ends when the caller is gone, and is over from the start
	// where the caller has given up before its event was read. An error is for a caller that then
	// does what is configured for a daemon that failed; a rejected event is none.
	Event(ctx context.Context, call MoMCall) (MoMAnswer, error)
}

// MoMCall is an event of pbs_mom as it came.
type MoMCall struct {
	Input  []byte // MoM's input file for the hook, to which the caller may have added lines
	Caller int    // pid of the hook's process, as the kernel knows it
	Parent int    // pid of its parent, as the caller says; 0 when it does not
	Output bool   // the text of MoM's output file is wanted, if that can hold the answer
	Asked  bool   // the caller has asked the server what it was told to ask
}

// MoMAnswer is what the hook is to do.
type MoMAnswer struct {
	Body   []byte
	Output bool // Body is the text of MoM's output file, not changes
}

// Headers and types of what the hook and the daemon say to each other beside the bodies.
const (
	momParent = "Hookhost-Parent"
	momAsked  = "Hookhost-Asked"

	momOutput  = "application/x-pbs-hook-output"
	momChanges = "application/x-hookhost-changes"
)

// momEvent answers the hook of pbs_mom. Bodies of both sides are no JSON; errors are. The hook
// sends "Expect: 100-continue", and its body without waiting: see sign.
func (s *Server) momEvent(peer Peer, r *http.Request) (any, error) {
	if s.MoM == nil {
		return nil, noCall(r)
	}
	call, err := momCall(r)
	if err != nil {
		return nil, malformed(err)
	}
	call.Caller = peer.PID
	return s.MoM.Event(r.Context(), call)
}

// momCall reads a call.
func momCall(r *http.Request) (MoMCall, error) {
	call := MoMCall{Asked: r.Header.Get(momAsked) == "yes"}
	for accept := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		call.Output = call.Output || strings.TrimSpace(accept) == momOutput
	}
	if text := r.Header.Get(momParent); text != "" {
		pid, err := strconv.Atoi(text)
		if err != nil || pid < 1 {
			return call, fmt.Errorf("%s: %q: want a process id", momParent, text)
		}
		call.Parent = pid
	}
	var err error
	call.Input, err = io.ReadAll(r.Body)
	if err == nil && len(call.Input) == 0 {
		err = errors.New("no event: the body is empty")
	}
	return call, err
}
