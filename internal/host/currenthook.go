package host

import (
	"context"
	"sync/atomic"
)

// At names the hook that an event is waiting for. The zero value is ready.
type At struct{ hook atomic.Pointer[string] }

type atKey struct{}

// WithAt returns a context for one event, whose current hook at will name.
func WithAt(ctx context.Context, at *At) context.Context { return context.WithValue(ctx, atKey{}, at) }

// Hook returns the hook that was called and has not answered yet. It returns "" if there is none,
// as while the event waits for its job's turn.
func (a *At) Hook() string {
	if hook := a.hook.Load(); hook != nil {
		return *hook
	}
	return ""
}

// calls notes that the hook is being called.
func calls(ctx context.Context, hook string) (answered func()) {
	at, _ := ctx.Value(atKey{}).(*At)
	if at == nil {
		return func() {}
	}
	at.hook.Store(&hook)
	return func() { at.hook.Store(nil) }
}
