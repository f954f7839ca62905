package plugin

import (
	"errors"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func TestCallOfARetiredProgramGoesToTheSuccessor(t *testing.T) {
	r := registryOf(t)
	register(t, r, "a", "misbehave", "")
	c, err := Open(optionsOf(t, r))
	must.NoError(t, err)
	defer func() {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	p := c.Find("a")
	register(t, r, "a", "misbehave", "value = \"x\"")
	wait, err := c.Reload()
	must.NoError(t, err)
	wait(t.Context())
	launch := &hostapi.Request{Event: hostapi.EventLaunch, Node: "n1", Job: &hostapi.Job{ID: "1.srv"}}
	if out, err := p.call(t.Context(), launch); !errors.Is(err, errRetired) || out != nil {
		t.Errorf("%v, %v, want errRetired", out, err)
	}
	if out, err := c.Place("a").Call(t.Context(), launch); err != nil || out == nil {
		t.Errorf("%v, %v, want the successor's answer", out, err)
	}
	if out, err := c.Place("b").Call(t.Context(), launch); err != nil || out != nil {
		t.Errorf("a hook that is no more: %v, %v", out, err)
	}
}
