package plugin

import "github.com/hookhost/hookhost/hostapi"

// Status is a hook as `hook list` and doctor show it.
type Status struct {
	Hook
	State    string          `json:"state"` // running, starting, broken or disabled
	PID      int             `json:"pid,omitempty"`
	Events   []hostapi.Event `json:"events,omitempty"` // events that it gets; nil before its program was started
	Restarts int             `json:"restarts"`
	Crashes  int             `json:"crashes"`         // including alarms and starts that failed
	Error    string          `json:"error,omitempty"` // why it does not run, or the error of its exechost_startup
}

// status returns the state of the hook's program.
func (p *Plugin) status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{Hook: p.hook, Restarts: max(p.starts-1, 0), Crashes: p.crashes}
	for _, e := range p.known {
		if p.hook.Gets(e) {
			s.Events = append(s.Events, e)
		}
	}
	switch {
	case p.inst != nil:
		s.State, s.PID = "running", p.inst.pid()
	case p.starting != nil:
		s.State = "starting"
	default:
		s.State = "broken"
	}
	if p.inst != nil {
		s.Error = p.startup
	} else if p.waits() {
		s.Error = replaced
	} else if p.failure != nil {
		s.Error = hostapi.OneLine(p.failure.Error())
	}
	return s
}
