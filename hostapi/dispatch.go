package hostapi

import (
	"context"
	"fmt"
	"reflect"
	"strings"
)

// handler is one event method of a hook.
type handler func(context.Context, *Request) (*Outcome, error)

// binding is the interface that a hook implements for an event.
type binding struct {
	method reflect.Method
	bind   func(hook any) handler // nil when the hook does not have this method
}

// bindingOf makes a binding from the method expression of its interface I.
func bindingOf[I any](call func(I, context.Context, *Request) (*Outcome, error)) binding {
	return binding{
		method: reflect.TypeFor[I]().Method(0),
		bind: func(hook any) handler {
			h, ok := hook.(I)
			if !ok {
				return nil
			}
			return func(ctx context.Context, req *Request) (*Outcome, error) { return call(h, ctx, req) }
		},
	}
}

// handlersOf finds the event methods of a hook. It fails if there are none, or if a method looks
// like an event's but would never be called. Such a method has the wrong signature, different
// capitalization, or needs a pointer to the hook.
func handlersOf(hook any) (map[Event]handler, error) {
	if hook == nil {
		return nil, fmt.Errorf("hook: the constructor returned nil")
	}
	t := reflect.TypeOf(hook)
	handlers := make(map[Event]handler)
	for _, r := range rows {
		if h := r.bind(hook); h != nil {
			handlers[r.event] = h
			continue
		}
		if err := r.nearMiss(t); err != nil {
			return nil, err
		}
	}
	if len(handlers) == 0 {
		return nil, fmt.Errorf("hook %s: handles no event: it has no method such as %s", t, rows[0].signature())
	}
	return handlers, nil
}

// nearMiss returns an error if t seems meant to have b's method but does not.
func (b binding) nearMiss(t reflect.Type) error {
	for m := range t.Methods() {
		if !strings.EqualFold(m.Name, b.method.Name) {
			continue
		}
		return fmt.Errorf("hook %s: method %s%s is not %s", t, m.Name, withoutReceiver(m.Type), b.signature())
	}
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface {
		p := reflect.PointerTo(t)
		if _, ok := p.MethodByName(b.method.Name); ok {
			return fmt.Errorf("hook %s: %s is a method of the pointer: return a %s", t, b.method.Name, p)
		}
	}
	return nil
}

// signature is the method as an author has to write it: ExecjobBegin(context.Context,
// *hostapi.Request) (...).
func (b binding) signature() string {
	return b.method.Name + strings.TrimPrefix(b.method.Type.String(), "func")
}

// withoutReceiver formats a method's type as in its declaration; reflect counts the receiver as the
// first argument.
func withoutReceiver(t reflect.Type) string {
	var in, out []reflect.Type
	for i := 1; i < t.NumIn(); i++ {
		in = append(in, t.In(i))
	}
	for i := range t.NumOut() {
		out = append(out, t.Out(i))
	}
	return strings.TrimPrefix(reflect.FuncOf(in, out, t.IsVariadic()).String(), "func")
}

// eventsOf lists the events of handlers in life-cycle order.
func eventsOf(handlers map[Event]handler) []Event {
	var handled []Event
	for _, r := range rows {
		if handlers[r.event] != nil {
			handled = append(handled, r.event)
		}
	}
	return handled
}
