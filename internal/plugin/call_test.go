package plugin

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// killsFirst is a host that has the first program killed while it starts.
type killsFirst struct {
	deafHost
	starts int
}

func (h *killsFirst) Startup(ctx context.Context, _ *Plugin, fresh *Candidate) string {
	if h.starts++; h.starts == 1 {
		fresh.inst.signal()
	}
	fresh.Call(ctx, &hostapi.Request{Event: hostapi.EventStartup, Node: "n1"})
	return ""
}

// An event for which a start had to be tried twice outlives a crash as any other does.
func TestCrashAfterAFailedStartIsReplayed(t *testing.T) {
	r := registryOf(t)
	dir := filepath.Dir(r.Dir)
	once, log := filepath.Join(dir, "once"), filepath.Join(dir, "log")
	register(t, r, "a", "misbehave", fmt.Sprintf("mode = 'kill'\nonce = %q\nlog = %q", once, log))
	p := launch(t, r, "a")
	h := &killsFirst{}
	p.host = h
	begin := &hostapi.Request{Event: hostapi.EventBegin, Node: "n1", Job: &hostapi.Job{ID: "1.srv"}}
	if _, err := p.call(t.Context(), begin); err != nil {
		t.Error(err)
	}
	want := "exechost_startup - 1|execjob_begin 1.srv 1|exechost_startup - 1|execjob_begin 1.srv 1"
	if got := strings.Join(plugintest.Lines(t, log), "|"); got != want || h.starts != 3 {
		t.Errorf("%d starts, calls %q", h.starts, got)
	}
	if s := p.status(); s.Crashes != 2 || s.Restarts != 2 {
		t.Errorf("%d crashes and %d restarts, want 2 of each", s.Crashes, s.Restarts)
	}
}
