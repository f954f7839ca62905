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

// MoM carries out events that pbs_mom's hook passes on. The input is MoM's own input file, and the
// answer tells the hook what to do.
type MoM interface {
	// Event carries out one event. ctx ends when the caller is gone. It has ended from the start if
	// the caller gave up before its event was read. On an error, the caller acts as configured for
	// a failed daemon. A rejected event is not an error.
	Event(ctx context.Context, call MoMCall) (MoMAnswer, error)
}

// MoMCall is an event of pbs_mom as it was received.
type MoMCall struct {
	Input  []byte // MoM's input file for the hook, to which the caller may have added lines
	Caller int    // pid of the hook's process, from the kernel
	Parent int    // pid of its parent, from the caller; 0 if not given
	Output bool   // the text of MoM's output file is wanted, if that can hold the answer
	Asked  bool   // the caller has asked the server what it was told to ask
}

// MoMAnswer is the answer to an event: instructions for the hook.
type MoMAnswer struct {
	Body   []byte
	Output bool // Body is the text of MoM's output file, not changes
}

// Headers and types of the requests and answers between the hook and the daemon.
const (
	momParent = "Hookhost-Parent"
	momAsked  = "Hookhost-Asked"

	momOutput  = "application/x-pbs-hook-output"
	momChanges = "application/x-hookhost-changes"
)

// momEvent answers the hook of pbs_mom. Bodies in both directions are not JSON, except errors. The
// hook sends "Expect: 100-continue", and its body without waiting: see sign.
func (s *Server) momEvent(peer Peer, r *http.Request) (any, error) {
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
