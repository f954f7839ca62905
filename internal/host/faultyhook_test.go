package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// A hook whose file cannot be used does not keep the host from starting, and no event that may be
// its passes without it. A reload does not take such a file.
func TestFaultyHookFailsItsEvents(t *testing.T) {
	n := newNode(t)
	n.hook("good", "misbehave", "")
	n.hook("bad", "misbehave", "", "order=2")
	file := filepath.Join(n.registry.Dir, "bad.toml")
	sound, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("order = \n")
	h := n.open()
	rejected := func(e hostapi.Event, want string) {
		t.Helper()
		v, err := h.Handle(t.Context(), requestOf(e, "1.srv"))
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && v.Reject || want != "" && (!v.Reject || !strings.Contains(v.Message, want)) {
			t.Errorf("%s: reject %t, %q, want %q", e, v.Reject, v.Message, want)
		}
	}
	rejected(hostapi.EventBegin, "hook bad: its file cannot be used: line 1")
	if n.record("1.srv") != nil {
		t.Error("the rejected job has a record")
	}
	if log := n.log.String(); !strings.Contains(log, "hook bad: its file cannot be used: line 1") {
		t.Errorf("log: %s", log)
	}
	status := func() plugin.Status {
		t.Helper()
		all, err := h.Hooks()
		i := slices.IndexFunc(all, func(s plugin.Status) bool { return s.Name == "bad" })
		if err != nil || i < 0 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[i]
	}
	if s := status(); s.State != "broken" || !strings.Contains(s.Error, "line 1") {
		t.Errorf("status %+v", s)
	}
	reload := func() {
		t.Helper()
		if err := h.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	write(string(sound))
	reload()
	rejected(hostapi.EventBegin, "")
	plugintest.Eventually(t, "it runs", func() bool { return status().State == "running" })
	rejected(hostapi.EventEnd, "")
	// All stays as it is when a file goes bad.
	pid := status().PID
	write("order = \n")
	if err := n.registry.Set("good", "order=7"); err != nil {
		t.Fatal(err)
	}
	if err := h.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "hook bad: its file cannot be used") {
		t.Errorf("reload: %v", err)
	}
	rejected(hostapi.EventBegin, "")
	rejected(hostapi.EventEnd, "")
	if s := status(); s.State != "running" || s.PID != pid || !strings.Contains(s.Error, "line 1") {
		t.Errorf("status %+v, want pid %d", s, pid)
	}
	if got := h.plugins.Find("good").Hook().Order; got != 1 {
		t.Errorf("order of the other hook: %d, want 1", got)
	}
	write("enabled = false\nuser = \"pbsuser\"\n") // nobody calls it
	reload()
	if err := n.registry.Delete("bad"); err != nil {
		t.Fatal(err)
	}
	reload()
	if got := h.plugins.Find("good").Hook().Order; got != 7 {
		t.Errorf("order of the other hook: %d, want 7", got)
	}
	if h.plugins.Find("bad") != nil {
		t.Error("the deleted hook is still there")
	}
}
