package host

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// reached tells when the chain has come to its link.
type reached struct {
	link
	called chan struct{}
}

func (r reached) Call(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	close(r.called)
	return r.link.Call(ctx, req)
}

// A hook whose configuration changes while an earlier one is at the event gets the event, with its
// new program.
func TestReloadInTheMiddleOfAnEvent(t *testing.T) {
	for _, e := range []hostapi.Event{hostapi.EventBegin, hostapi.EventLaunch, hostapi.EventEnd} {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			old, fresh := filepath.Join(n.dir, "old"), filepath.Join(n.dir, "fresh")
			n.hook("a", "misbehave", "", "order=1")
			n.hook("b", "misbehave", fmt.Sprintf("log = %q", old), "order=2")
			n.hook("c", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "gone")), "order=3")
			h := n.open()
			plugintest.Eventually(t, "all run",
				func() bool { return hookPID(t, h, "a") != 0 && hookPID(t, h, "b") != 0 && hookPID(t, h, "c") != 0 })
			stopped := stop(t, h, "a")
			links := h.links()
			links[0] = reached{links[0], make(chan struct{})}
			c := &chain{links: links, req: requestOf(e, "1.srv")}
			var wg sync.WaitGroup
			wg.Go(func() {
				if v := c.run(t.Context()); v.Reject {
					t.Error(v.Message)
				}
			})
			<-links[0].(reached).called
			n.hook("b", "misbehave", fmt.Sprintf("log = %q", fresh), "order=2")
			if err := n.registry.Set("c", "enabled=false"); err != nil {
				t.Fatal(err)
			}
			if err := h.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := unix.Kill(stopped, unix.SIGCONT); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			if got := n.calls("fresh"); !slices.Contains(got, string(e)+" 1.srv 1") {
				t.Errorf("calls of the new program: %v, want %s", got, e)
			}
			for _, name := range []string{"old", "gone"} {
				for _, call := range n.calls(name) {
					if strings.HasPrefix(call, string(e)+" ") {
						t.Errorf("%s program called: %s", name, call)
					}
				}
			}
		})
	}
}

// stopInEvent stops the program of the first hook, and returns once an event has reached it. wg is
// done when the event is.
func stopInEvent(t *testing.T, h *Host, name string) (pid int, wg *sync.WaitGroup) {
	pid = stop(t, h, name)
	links := h.links()
	links[0] = reached{links[0], make(chan struct{})}
	c := &chain{links: links, req: requestOf(hostapi.EventBegin, "1.srv")}
	wg = &sync.WaitGroup{}
	wg.Go(func() { c.run(t.Context()) })
	<-links[0].(reached).called
	return pid, wg
}

// A hook has one program at a time: what a program keeps of jobs is nobody else's meanwhile.
func TestReplacedHookStartsWhenItsProgramHasEnded(t *testing.T) {
	log := func(n *node, name string) string { return fmt.Sprintf("log = %q", filepath.Join(n.dir, name)) }
	set := func(t *testing.T, n *node, assignment string) {
		if err := n.registry.Set("a", assignment); err != nil {
			t.Fatal(err)
		}
	}
	for name, changes := range map[string][]func(*testing.T, *node){
		"changed": {func(_ *testing.T, n *node) { n.hook("a", "misbehave", log(n, "fresh")) }},
		"changed twice": {
			func(_ *testing.T, n *node) { n.hook("a", "misbehave", log(n, "between")) },
			func(_ *testing.T, n *node) { n.hook("a", "misbehave", log(n, "fresh")) },
		},
		"disabled and enabled": {
			func(t *testing.T, n *node) { set(t, n, "enabled=false") },
			func(t *testing.T, n *node) { set(t, n, "enabled=true") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.hook("a", "misbehave", log(n, "old"))
			h := n.open()
			plugintest.Eventually(t, "it runs", func() bool { return hookPID(t, h, "a") != 0 })
			old, wg := stopInEvent(t, h, "a")
			for _, change := range changes {
				change(t, n)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // Reload waits for the program
				err := h.Reload(ctx)
				cancel()
				if err != nil {
					t.Fatal(err)
				}
			}
			alone := func() bool {
				fresh := hookPID(t, h, "a")
				if fresh != 0 && fresh != old && unix.Kill(old, 0) == nil {
					t.Errorf("program %d was started beside program %d", fresh, old)
				}
				return fresh != 0 && fresh != old
			}
			for range 50 {
				if alone() {
					t.Fatal("a program was started while the one before carries out an event")
				}
				time.Sleep(10 * time.Millisecond)
			}
			if err := unix.Kill(old, unix.SIGCONT); err != nil {
				t.Fatal(err)
			}
			plugintest.Eventually(t, "the next program runs", alone)
			wg.Wait()
		})
	}
}

// An event for which there is no time until the program before has ended is busy: the job comes
// again, and fail_action does not act.
func TestEventThatWaitsForAReplacedProgramIsBusy(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "", "fail_action=offline_vnodes")
	h := n.open()
	plugintest.Eventually(t, "it runs", func() bool { return hookPID(t, h, "a") != 0 })
	old, wg := stopInEvent(t, h, "a")
	n.hook("a", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "fresh")), "alarm=1")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // Reload waits for the program
	defer cancel()
	if err := h.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	v := judge(t, h, hostapi.EventBegin, "2.srv")
	if !v.Reject || v.Kind != hostapi.KindBusy || v.OnReject != hostapi.JobActionRerun || len(v.FailAction) > 0 {
		t.Errorf("%+v", v)
	}
	if err := unix.Kill(old, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}

// Attributes of periodics are in force at once, not after the next start of the program or the end
// of a long wait.
func TestReloadPeriodic(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.hook("on", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "on")), "event=execjob_begin", "freq=1")
	n.hook("fast", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "fast")), "freq=3600")
	n.hook("off", "misbehave", "", "freq=3600")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	for name, attr := range map[string]string{"on": "event=execjob_begin,exechost_periodic", "fast": "freq=1",
		"off": "event=execjob_begin"} {
		if err := n.registry.Set(name, attr); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"on", "fast"} {
		plugintest.Eventually(t, name+" is called",
			func() bool { return strings.Contains(strings.Join(n.calls(name), " "), "exechost_periodic") })
	}
	h.periodics.mu.Lock()
	_, armed := h.periodics.next[h.plugins.Find("off")]
	h.periodics.mu.Unlock()
	if armed {
		t.Error("a timer is left of a hook that gets no periodic any more")
	}
}
