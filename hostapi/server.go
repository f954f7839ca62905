package hostapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hookhost/hookhost/hostapi/internal/hookpb"
	"github.com/sirupsen/logrus"
)

// server is the hook's end of the calls.
type server struct {
	hookpb.UnimplementedHookServer
	newHook func(*Setup) (any, error)
	log     *logrus.Logger

	configure sync.Mutex
	handlers  atomic.Pointer[map[Event]handler] // nil until Configure succeeded
}

// Configure creates the hook. After a failure it may be called again.
func (s *server) Configure(_ context.Context, in *hookpb.ConfigureRequest) (*hookpb.ConfigureReply, error) {
	s.configure.Lock()
	defer s.configure.Unlock()
	if s.handlers.Load() != nil {
		return &hookpb.ConfigureReply{Error: wireError(errors.New("configure: the hook is configured already"))}, nil
	}
	level := logrus.InfoLevel
	if in.LogLevel != "" {
		var err error
		if level, err = logrus.ParseLevel(in.LogLevel); err != nil {
			return &hookpb.ConfigureReply{Error: wireError(fmt.Errorf("configure: log level %q: unknown",
				in.LogLevel))}, nil
		}
	}
	s.log.SetLevel(level)
	handlers, err := s.make(&Setup{
		Name: in.Name, Node: in.Node, Config: in.Config, Host: in.Host, Log: logrus.NewEntry(s.log),
	})
	if err != nil {
		return &hookpb.ConfigureReply{Error: wireError(err)}, nil
	}
	s.handlers.Store(&handlers)
	reply := new(hookpb.ConfigureReply)
	for _, e := range eventsOf(handlers) {
		reply.Events = append(reply.Events, string(e))
	}
	return reply, nil
}

// make calls the constructor and checks the hook it returns.
func (s *server) make(setup *Setup) (handlers map[Event]handler, err error) {
	defer s.recovered("the hook's constructor", &err)
	hook, err := s.newHook(setup)
	if err != nil {
		return nil, err
	}
	return handlersOf(hook)
}

// Handle carries out one event. An error of the hook is in the reply.
func (s *server) Handle(ctx context.Context, in *hookpb.HandleRequest) (*hookpb.HandleReply, error) {
	out, err := s.handle(ctx, in.Request)
	reply := new(hookpb.HandleReply)
	if err != nil {
		// The answer is the same whether or not the hook watched its deadline.
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			err = &Error{Kind: KindTimeout, Err: err}
		}
		reply.Error = wireError(err)
	}
	if out != nil {
		b, err := json.Marshal(out)
		if err != nil {
			return &hookpb.HandleReply{Error: wireError(fmt.Errorf("encode outcome: %w", err))}, nil
		}
		reply.Outcome = b
	}
	return reply, nil
}

func (s *server) handle(ctx context.Context, request []byte) (*Outcome, error) {
	handlers := s.handlers.Load()
	if handlers == nil {
		return nil, errors.New("handle: the hook is not configured yet")
	}
	req := new(Request)
	if err := json.Unmarshal(request, req); err != nil {
		return nil, fmt.Errorf("decode request: %w", err)
	}
	h := (*handlers)[req.Event]
	if h == nil {
		return nil, fmt.Errorf("event %q: the hook does not handle it", req.Event)
	}
	return s.call(ctx, h, req)
}

func (s *server) call(ctx context.Context, h handler, req *Request) (out *Outcome, err error) {
	defer s.recovered(string(req.Event), &err)
	return h(ctx, req)
}

// recovered, when deferred, turns a panic into an error and logs the stack. The program keeps
// running, because other jobs depend on it.
func (s *server) recovered(what string, err *error) {
	if p := recover(); p != nil {
		s.log.WithField("stack", string(debug.Stack())).Errorf("panic in %s: %v", what, p)
		*err = Errorf(KindInternal, "panic in %s: %v", what, p)
	}
}

func wireError(err error) *hookpb.Error {
	// A protobuf string must be UTF-8, but an error may quote a path that is not.
	return &hookpb.Error{Kind: string(KindOf(err)), Text: strings.ToValidUTF8(err.Error(), "\uFFFD")}
}
