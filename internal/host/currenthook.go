package host

import (
	"context"
	"sync/atomic"
)

// At tells somebody who waits for an event which hook is at it. The zero value is ready.
type At struct{ hook atomic.Pointer[string] }

type atKey struct{}

// WithAt returns a context for one event of which at is to tell.
func WithAt(ctx context.Context, at *At) context.Context { return context.WithValue(ctx, atKey{}, at) }

// Hook returns the hook that was called and has not answered yet. The name is "" when there is
// none, as while the event waits for its job's turn.
func (a *At) Hook() string {
	if hook := a.hook.Load(); hook != nil {
		return *hook
	}
	return ""
}

// calls notes that the hook is called.
func calls(ctx context.Context, hook string) (answered func()) {
	at, _ := ctx.Value(atKey{}).(*At)
	if at == nil {
		return func() {}
	}
	at.hook.Store(&hook)
	return func() { at.hook.Store(nil) }
}
