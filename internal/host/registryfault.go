package host

import (
	"github.com/pelletier/go-toml/v2"

	"github.com/hookhost/hookhost/hostapi"
)

// faulty is the hook of a file that cannot be used: because of err, and with text where it could be read. It may be there to
// reject jobs, so nothing is to go on as if it were not registered: it fails its events as a hook does whose program does not
// start. Which these are, whether it is enabled, its order and its fail_action are taken from the file where that can still be
// told; else it is enabled and gets every event.
func (r *Registry) faulty(name string, text []byte, err error) Hook {
	h, _ := r.builtIn(name)
	h.Fault = OneLine(err.Error())
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
		_ = h.Event.UnmarshalText([]byte(events)) // one that names no event stays at every event
	}
	if actions, ok := held["fail_action"].(string); ok {
		_ = h.FailAction.UnmarshalText([]byte(actions))
	}
	return h
}

// fault is why the hook cannot be called, nil when it can.
func (h Hook) fault() error {
	if h.Fault == "" {
		return nil
	}
	return hostapi.Errorf(hostapi.KindNode, "hook %s: its file cannot be used: %s", h.Name, h.Fault)
}

// keep puts, in place of a hook whose file has become unusable, what the host has in force of it, and tells of each.
func (h *Host) keep(hooks []Hook) {
	for i, hook := range hooks {
		if hook.Fault == "" {
			continue
		}
		entry := h.log.WithField("hook", hook.Name)
		if p := h.plugin(hook.Name); p != nil && p.spec().Fault == "" {
			hooks[i] = p.spec()
			entry.Errorf("%v; what is in force stays until it is corrected or hookhost is started anew", hook.fault())
			continue
		}
		entry.Errorf("%v; its events fail until it is corrected or deleted", hook.fault())
	}
}
