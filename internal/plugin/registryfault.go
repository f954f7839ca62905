package plugin

import (
	"cmp"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"github.com/hookhost/hookhost/hostapi"
)

// faulty returns the hook of a file that cannot be used because of err, with text if it could be
// read. The hook may exist to reject jobs, so nothing may go on as if it were not registered. Its
// events fail, like those of a hook whose program does not start. Its events, order, fail_action,
// on_node_error and enabled come from the file as far as they can be read. Otherwise the hook is
// enabled and gets every event.
func (r *Registry) faulty(name string, text []byte, err error) Hook {
	h, _ := r.builtIn(name)
	h.Fault = hostapi.OneLine(err.Error())
	var held map[string]any
	if toml.Unmarshal(text, &held) != nil {
		return h
	}
	if on, ok := held["enabled"].(bool); ok {
		h.Enabled = on
	}
	if order, ok := held["order"].(int64); ok && order >= 1 && order <= 2000 {
		h.Order = int(order)
	}
	if events, ok := held["event"].(string); ok {
		_ = h.Event.UnmarshalText([]byte(events)) // if it names no event, the hook still gets every event
	}
	if actions, ok := held["fail_action"].(string); ok {
		_ = h.FailAction.UnmarshalText([]byte(actions))
	}
	if on, ok := held["on_node_error"].(string); ok && slices.Contains(blames, Blame(on)) {
		h.OnNodeError = cmp.Or(Blame(on), h.OnNodeError)
	}
	return h
}

// err returns why the hook cannot be called, nil if it can. Its kind is KindNode.
func (h Hook) err() error {
	if h.Fault == "" {
		return nil
	}
	return hostapi.Errorf(hostapi.KindNode, "hook %s: its file cannot be used: %s", h.Name, h.Fault)
}
