package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// A caller who hangs up harms nobody: neither the hook's program nor other jobs' events.
func TestCallerHangsUp(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	log := filepath.Join(n.dir, "log")
	n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nevent = %q\nlog = %q", "wait", "exechost_periodic", log),
		"alarm=2")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	pid := hookPID(t, h, "a")
	called := func() bool { return strings.Contains(strings.Join(n.calls("log"), "\n"), "exechost_periodic") }

	// The chain itself, without what Refresh does against it.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := h.plugins.Place("a").Call(ctx, &hostapi.Request{Event: hostapi.EventPeriodic, Node: "n1"})
		done <- err
	}()
	plugintest.Eventually(t, "the hook is called", called)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || hostapi.KindOf(err) != hostapi.KindBusy {
		t.Errorf("call: %v, want it given up", err)
	}
	if now := hookPID(t, h, "a"); now != pid {
		t.Errorf("pid %d, was %d: the program was killed", now, pid)
	}
	must(t, h, hostapi.EventLaunch, "1.srv")

	// Refresh goes on until the alarm, whoever asked.
	ctx, cancel = context.WithCancel(t.Context())
	before := len(n.calls("log"))
	go func() { done <- h.Refresh(ctx, "1.srv") }()
	plugintest.Eventually(t, "the hook is called", func() bool { return len(n.calls("log")) > before })
	cancel()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "alarm after 2s") {
			t.Errorf("refresh: %v, want the hook's alarm", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("refresh does not end")
	}
}
