package hostapi

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/hookhost/hookhost/hostapi/internal/hookpb"
)

// ErrGone means that a hook's program did not answer because it no longer exists. Its error has
// KindInternal.
var ErrGone = errors.New("the hook's program is gone")

// SetupData is the data that the host sends to a hook before the first event.
type SetupData struct {
	Name     string            // the hook's name on this node
	Node     string            // this host as exec_vnode names it
	Config   []byte            // the hook's configuration file as it was imported; nil when there is none
	LogLevel string            // error, warning, info, debug or trace; "" means info
	Host     map[string]string // settings of the node that all hooks share
}

// Info describes a hook to the host.
type Info struct {
	Events []Event // the events it handles, in life-cycle order; never empty
}

// Client is the host's end of a running hook. Its methods may be called at the same time from many
// goroutines.
//
// Every error has a kind. An error returned by the hook has the kind that the hook chose.
// KindTimeout means that ctx's deadline has passed (errors.Is context.DeadlineExceeded).
// KindInternal with ErrGone means that the program no longer exists.
type Client struct {
	hook hookpb.HookClient
}

// Configure sends the hook its configuration and returns the events it handles. It is the first
// call and is made only once: a second call fails. The error may come from the hook and concern its
// configuration, or say that the hook handles no event.
func (c *Client) Configure(ctx context.Context, data SetupData) (Info, error) {
	reply, err := c.hook.Configure(ctx, &hookpb.ConfigureRequest{
		Name: data.Name, Node: data.Node, Config: data.Config, LogLevel: data.LogLevel, Host: data.Host,
	}, grpc.MaxCallRecvMsgSize(MaxMessage))
	if err != nil {
		return Info{}, callError(ctx, "configure", err)
	}
	if reply.Error != nil {
		return Info{}, replyError(reply.Error)
	}
	for _, name := range reply.Events {
		if _, err := ParseEvent(name); err != nil {
			return Info{}, Errorf(KindInternal, "configure: %w", err)
		}
	}
	var info Info
	for _, e := range Events() { // a program may name them in any order
		if slices.Contains(reply.Events, string(e)) {
			info.Events = append(info.Events, e)
		}
	}
	if len(info.Events) == 0 {
		return Info{}, Errorf(KindInternal, "configure: the hook handles no event")
	}
	return info, nil
}

// Handle carries out one event; ctx's deadline is its alarm. The Outcome is never nil when the
// error is nil. An Outcome may also accompany an error: it holds the hook's measurements before it
// failed.
func (c *Client) Handle(ctx context.Context, req *Request) (*Outcome, error) {
	b, err := json.Marshal(req)
	if err != nil {
		return nil, Errorf(KindInternal, "encode %s: %w", req.Event, err)
	}
	reply, err := c.hook.Handle(ctx, &hookpb.HandleRequest{Request: b}, grpc.MaxCallRecvMsgSize(MaxMessage))
	if err != nil {
		return nil, callError(ctx, string(req.Event), err)
	}
	var hookErr error
	if reply.Error != nil {
		hookErr = replyError(reply.Error)
	}
	if len(reply.Outcome) == 0 {
		if hookErr != nil {
			return nil, hookErr
		}
		return &Outcome{}, nil
	}
	out := new(Outcome)
	if err := json.Unmarshal(reply.Outcome, out); err != nil {
		return nil, errors.Join(Errorf(KindInternal, "outcome of %s: %w", req.Event, err), hookErr)
	}
	if err := out.Check(req.Event); err != nil {
		return nil, errors.Join(Errorf(KindInternal, "outcome of %s: %w", req.Event, err), hookErr)
	}
	return out, hookErr
}

// replyError rebuilds the hook's error from the reply. A kind that this host does not know becomes
// internal.
func replyError(e *hookpb.Error) error {
	kind := Kind(e.Kind)
	if !kind.known() {
		kind = KindInternal
	}
	if kind == KindTimeout {
		return &Error{Kind: kind, Err: deadlineError(e.Text)}
	}
	return &Error{Kind: kind, Err: errors.New(e.Text)}
}

// deadlineError is the error of a hook that noticed itself that its deadline had passed.
type deadlineError string

func (e deadlineError) Error() string        { return string(e) }
func (e deadlineError) Is(target error) bool { return target == context.DeadlineExceeded }

// callError distinguishes a passed deadline and a dead program from other failures of the call.
func callError(ctx context.Context, what string, err error) error {
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		return Errorf(KindTimeout, "%s: no answer in time: %w", what, context.DeadlineExceeded)
	case codes.Unavailable:
		return Errorf(KindInternal, "%s: %w", what, ErrGone)
	case codes.Canceled:
		// The host gets the same answer after it has closed the connection itself, once the program
		// ended.
		if ctx.Err() == nil {
			return Errorf(KindInternal, "%s: %w", what, ErrGone)
		}
		return Errorf(KindInternal, "%s: %w", what, context.Cause(ctx))
	}
	return Errorf(KindInternal, "%s: %s", what, status.Convert(err).Message())
}
