package plugin

import (
	"context"
	"errors"

	"github.com/hookhost/hookhost/hostapi"
)

// Place is a hook's place in the order of events. Its program is looked up only when the hook is
// called. So a Reload during an event does not skip a hook that is registered before and after.
type Place struct {
	catalog *Catalog
	name    string
}

// Place returns the place of the hook, registered or not.
func (c *Catalog) Place(name string) Place { return Place{c, name} }

// Places returns the places of the current hooks, in order. A hook that is registered later gets
// the events that begin later.
func (c *Catalog) Places() []Place {
	var places []Place
	for _, p := range c.List() {
		places = append(places, c.Place(p.Hook().Name))
	}
	return places
}

// Hook returns the hook as it is registered now, or only its name if it was deleted.
func (l Place) Hook() Hook {
	if p := l.catalog.Find(l.name); p != nil {
		return p.Hook()
	}
	return Hook{Name: l.name}
}

// Gets reports whether the hook will be called for the event.
func (l Place) Gets(e hostapi.Event) bool {
	p := l.catalog.Find(l.name)
	return p != nil && p.Gets(e)
}

// Call carries out one event within the hook's alarm, as call does, with the program that now has
// the place. If another program takes the place meanwhile, that one is called. A nil outcome
// without an error means that no such hook gets the event any more.
func (l Place) Call(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	var last *Plugin
	got := false // a predecessor was lost during the event
	for {
		p := l.catalog.Find(l.name)
		if p == nil || !p.Gets(req.Event) {
			return nil, nil
		}
		if p == last {
			// Plugins are replaced before they are retired, except when the catalog closes.
			return nil, hostapi.Errorf(hostapi.KindBusy, "hook %s: %w", l.name, ErrClosed)
		}
		out, err := p.call(ctx, req)
		lost, is := errors.AsType[Unanswered](err)
		got = got || lost.Got
		if is {
			lost.Got = got
			err = lost
		}
		if !errors.Is(err, errRetired) {
			return out, err
		}
		last = p
	}
}
