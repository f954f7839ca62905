package host

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// Whatever a hook does, and however its start fails, the host holds nothing of it afterwards: no
// goroutine, descriptor, child or socket.
func TestHostHoldsNothingOfAHookThatFailed(t *testing.T) {
	tests := []struct {
		name, program, config string
		set                   []string
	}{
		{name: "works", program: "misbehave"},
		{name: "crashes", program: "misbehave", config: `mode = "kill"`},
		{name: "hangs", program: "misbehave", config: `mode = "hang"`, set: []string{"alarm=1"}},
		{name: "prints early", program: "print-early"},
		{name: "wrong version", program: "wrong-version"},
		{name: "exits at start", program: "exit-at-start"},
		{name: "slow start", program: "slow-start"},
		{name: "refuses its configuration", program: "misbehave", config: `mode = "configure"`},
		{name: "nonsense", program: "nonsense"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cycle := func(n *node) {
				h := n.open()
				for i := range 2 {
					judge(t, h, hostapi.EventBegin, fmt.Sprintf("%d.srv", i+1))
				}
				if err := h.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			n := newNode(t)
			n.options = func(o *Options) { o.StartTimeout = 500 * time.Millisecond }
			n.hook("h", tt.program, tt.config, tt.set...)
			if tt.program != "slow-start" {
				n.options = nil
				cycle(n) // what the libraries keep for ever is there now
			}
			before, quiet := descriptors(t), goleak.IgnoreCurrent()
			cycle(n)
			for end := time.Now().Add(time.Minute); goleak.Find(quiet) != nil && time.Now().Before(end); {
			}
			goleak.VerifyNone(t, quiet) // which alone waits for half a second
			if after := descriptors(t); len(after) > len(before) {
				t.Errorf("descriptors before %v\nafter %v", before, after)
			}
			if left, _ := filepath.Glob(filepath.Join(n.dir, "run", "*")); len(left) > 0 {
				t.Errorf("left in the runtime directory: %v", left)
			}
			if pids := plugintest.Children(t); len(pids) > 0 {
				t.Errorf("children left: %v", pids)
			}
		})
	}
}

func descriptors(t *testing.T) []string {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			targets = append(targets, fd.Name()+"="+target)
		}
	}
	return targets
}
