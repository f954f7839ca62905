package hooktest_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/hostapi/hooktest"
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

func TestHook(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	t.Run("run", func(t *testing.T) {
		h := hooktest.New(t, newGreeter, `words = "hello"`)
		if diff := cmp.Diff([]hostapi.Event{hostapi.EventPrologue}, h.Events()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		out, err := h.Call(t.Context(), &hostapi.Request{Event: hostapi.EventPrologue, Job: &hostapi.Job{ID: "1"}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"test@node1: hello"}, out.Notes); diff != "" {
			t.Errorf("notes (-want +got):\n%s", diff)
		}
	})
	goleak.VerifyNone(t, ignore)
}

func TestTry(t *testing.T) {
	_, err := hooktest.Try(t, newGreeter, hostapi.SetupData{Name: "g", Config: []byte("word = 'x'")})
	if want := "configuration of hook g: line 1: word: unknown key"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
