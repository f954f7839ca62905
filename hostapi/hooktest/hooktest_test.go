package hooktest_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/hostapi/hooktest"
	"github.com/hookhost/hookhost/internal/must"
)

type greeter struct {
	Words string `toml:"words"`
	setup *hostapi.Setup
}

func newGreeter(s *hostapi.Setup) (any, error) {
	g := &greeter{setup: s}
	return g, s.Decode(g)
}

func (g *greeter) ExecjobPrologue(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	g.setup.Log.WithField("job", req.Job.ID).Debug("greets")
	return &hostapi.Outcome{Notes: []string{g.setup.Name + "@" + g.setup.Node + ": " + g.Words}}, nil
}

func TestHookIsCalledAndClosed(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	t.Run("run", func(t *testing.T) {
		h := hooktest.New(t, newGreeter, `words = "hello"`)
		must.Equal(t, "events", []hostapi.Event{hostapi.EventPrologue}, h.Events())
		out, err := h.Call(t.Context(), &hostapi.Request{Event: hostapi.EventPrologue, Job: &hostapi.Job{ID: "1"}})
		must.NoError(t, err)
		must.Equal(t, "notes", []string{"test@node1: hello"}, out.Notes)
	})
	goleak.VerifyNone(t, ignore)
}

func TestTryReturnsTheErrorOfTheConfiguration(t *testing.T) {
	_, err := hooktest.Try(t, newGreeter, hostapi.SetupData{Name: "g", Config: []byte("word = 'x'")})
	if want := "configuration of hook g: line 1: word: unknown key"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
