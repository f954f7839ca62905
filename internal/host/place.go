package host

import (
	"context"
	"errors"

	"github.com/hookhost/hookhost/hostapi"
)

// place is a hook's place in the chain of an event. Which program fills it is looked up at the moment of the call: a
// Reload in the middle of an event takes no hook out of it that is registered and enabled before and after.
type place struct {
	host *Host
	hook string
}

// spec returns the hook as it is registered now, with nothing but its name when it is no more.
func (l place) spec() Hook {
	if p := l.host.plugin(l.hook); p != nil {
		return p.spec()
	}
	return Hook{Name: l.hook}
}

func (l place) gets(e hostapi.Event) bool {
	p := l.host.plugin(l.hook)
	return p != nil && p.gets(e)
}

// call calls the hook, and its successor when it turns out to be replaced. Nil without an error: no such hook gets the
// event any more.
func (l place) call(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	var last *plugin
	begun := false // a predecessor was lost in the middle of it
	for {
		p := l.host.plugin(l.hook)
		if p == nil || !p.gets(req.Event) {
			return nil, nil
		}
		if p == last {
			// Plugins are replaced before they are retired, except when the host closes.
			return nil, unreached{hostapi.Errorf(hostapi.KindBusy, "hook %s: %w", l.hook, ErrClosed)}
		}
		out, err := p.call(ctx, req)
		if !errors.Is(err, errRetired) {
			if _, never := errors.AsType[unreached](err); never && begun {
				err = midway{err}
			}
			return out, err
		}
		if _, mid := errors.AsType[midway](err); mid {
			begun = true
		}
		last = p
	}
}
