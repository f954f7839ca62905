package openpbs

import (
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func TestStateOfHookhostIsAddedToTheVnodesThatHaveAnother(t *testing.T) {
	state := func(s string) *hostapi.Vnode {
		return &hostapi.Vnode{ResourcesAvailable: hostapi.Resources{HookhostState: s}}
	}
	type vnodes = map[string]*hostapi.Vnode
	mem := func() *hostapi.Vnode { return &hostapi.Vnode{ResourcesAvailable: hostapi.Resources{"mem": "1kb"}} }
	both := &hostapi.Vnode{ResourcesAvailable: hostapi.Resources{"mem": "1kb", HookhostState: "ok"}}
	const startup, periodic = hostapi.EventStartup, hostapi.EventPeriodic
	for name, tt := range map[string]struct {
		event            hostapi.Event
		known, out, want vnodes
		enabled, ok      bool
	}{
		"at startup":   {startup, vnodes{"n1": mem()}, vnodes{"n1": mem()}, vnodes{"n1": both}, true, true},
		"at a restart": {startup, vnodes{"n1": state("ok")}, nil, vnodes{"n1": state("ok")}, true, true},
		"for each vnode": {startup, vnodes{"n1": mem()}, vnodes{"n1[0]": mem()},
			vnodes{"n1": state("ok"), "n1[0]": both}, true, true},
		"once": {periodic, vnodes{"n1": state("ok")}, vnodes{"n1": mem()}, vnodes{"n1": mem()}, true, true},
		"a change": {periodic, vnodes{"n1": state("ok"), "n1[0]": mem()}, nil,
			vnodes{"n1": state("degraded"), "n1[0]": state("degraded")}, true, false},
		"of no host left alone":     {startup, vnodes{"n1": mem()}, nil, vnodes{}, false, true},
		"and no longer":             {periodic, vnodes{"n1": state("ok")}, nil, vnodes{"n1": state("")}, false, true},
		"not without a list of MoM": {periodic, nil, nil, nil, true, true},
		"not at an event of a job":  {hostapi.EventBegin, vnodes{"n1": mem()}, nil, nil, true, true},
	} {
		e := &Event{Request: &hostapi.Request{Event: tt.event, Node: "n1", VnodeList: tt.known}}
		out := &hostapi.Outcome{Vnodes: tt.out}
		e.AddState(out, tt.enabled, tt.ok)
		must.Equal(t, name, tt.want, out.Vnodes)
	}
}
