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
		state            string
	}{
		"at startup":   {startup, vnodes{"n1": mem()}, vnodes{"n1": mem()}, vnodes{"n1": both}, "ok"},
		"at a restart": {startup, vnodes{"n1": state("ok")}, nil, vnodes{"n1": state("ok")}, "ok"},
		"for each vnode": {startup, vnodes{"n1": mem()}, vnodes{"n1[0]": mem()},
			vnodes{"n1": state("ok"), "n1[0]": both}, "ok"},
		"once": {periodic, vnodes{"n1": state("ok")}, vnodes{"n1": mem()}, vnodes{"n1": mem()}, "ok"},
		"a change": {periodic, vnodes{"n1": state("ok"), "n1[0]": mem()}, nil,
			vnodes{"n1": state("degraded"), "n1[0]": state("degraded")}, "degraded"},
		"a host left alone":                   {periodic, vnodes{"n1": mem()}, nil, vnodes{}, ""},
		"from now on":                         {periodic, vnodes{"n1": state("ok")}, nil, vnodes{"n1": state("")}, ""},
		"from now on, and MoM forgets its ok": {startup, vnodes{"n1": mem()}, nil, vnodes{"n1": state("")}, ""},
		"not without a list of MoM":           {periodic, nil, nil, nil, "ok"},
		"not at an event of a job":            {hostapi.EventBegin, vnodes{"n1": mem()}, nil, nil, "ok"},
	} {
		e := &Event{Request: &hostapi.Request{Event: tt.event, Node: "n1", VnodeList: tt.known}}
		out := &hostapi.Outcome{Vnodes: tt.out}
		e.AddState(out, tt.state)
		must.Equal(t, name, tt.want, out.Vnodes)
	}
}
