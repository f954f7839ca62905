package host

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin"
)

// A hook that answers begin with an error of kind job, busy or node has undone its own; one that
// crashes has not.
func TestWhoIsUndone(t *testing.T) {
	for kind, undone := range map[string]bool{"busy": false, "job": false, "node": false, "internal": true} {
		t.Run(kind, func(t *testing.T) {
			n := newNode(t)
			n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nvalue = %q\nlog = %q", "error", kind,
				filepath.Join(n.dir, "log")))
			h := n.open()
			if v := judge(t, h, hostapi.EventBegin, "1.srv"); !v.Reject {
				t.Fatal("accepted")
			}
			if got := slices.Contains(n.calls("log"), "execjob_abort 1.srv 2"); got != undone {
				t.Errorf("abort sent: %v, want %v", got, undone)
			}
		})
	}
	var calls []string
	conflict := func(name, value string) fakeHook {
		h := fakeHook{hook: plugin.Hook{Name: name, Attributes: plugin.DefaultAttributes()}, calls: &calls}
		h.answer = at(hostapi.EventBegin, &hostapi.Outcome{ResourcesUsed: hostapi.Resources{"mem": value}}, nil)
		return h
	}
	c := &chain{links: []link{conflict("a", "1kb"), conflict("b", "2kb")}, req: requestOf(hostapi.EventBegin, "1")}
	c.run(t.Context())
	if err := c.undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(calls, ", "); got != "begin a, begin b, abort b, abort a" {
		t.Errorf("after a conflict: %s", got)
	}
}
