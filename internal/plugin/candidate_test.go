package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// startupHost calls each program's exechost_startup and passes on what came of the first.
type startupHost struct {
	deafHost
	dead chan error
}

func (h startupHost) Startup(ctx context.Context, _ *Plugin, fresh *Candidate) string {
	fresh.Call(ctx, &hostapi.Request{Event: hostapi.EventStartup, Node: "n1"})
	select {
	case h.dead <- fresh.Err():
	default: // the start after the first one's alarm
	}
	return ""
}

// A host that closes while a program hangs in exechost_startup does not blame the alarm.
func TestCandidateThatIsGivenUpIsToldFromOneThatOverranItsAlarm(t *testing.T) {
	tests := []struct {
		name, alarm string
		close       bool
		want        string
	}{
		{name: "alarm", alarm: "alarm=1", want: "no answer to exechost_startup within its alarm of 1s"},
		{name: "close", alarm: "alarm=600", close: true, want: "given up in exechost_startup: context canceled"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := registryOf(t)
			once := filepath.Join(t.TempDir(), "once")
			config := fmt.Sprintf("mode = \"hang\"\nevent = \"exechost_startup\"\nonce = %q", once)
			register(t, r, "a", "misbehave", config, tt.alarm)
			o := optionsOf(t, r)
			host := startupHost{dead: make(chan error, 1)}
			o.Host = host
			c, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			c.Start()
			plugintest.Eventually(t, "the program hangs", func() bool { _, err := os.Stat(once); return err == nil })
			if tt.close {
				if err := c.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
			if err := <-host.dead; err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}
