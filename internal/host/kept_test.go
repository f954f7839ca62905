package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// keeper opens a host with a hook h that wants its attaches kept. asked returns how often the hook was asked of the job's attaches.
func keeper(t *testing.T, set ...string) (n *node, h *Host, asked func(job string) int) {
	t.Helper()
	n = newNode(t)
	n.hook("h", "misbehave", n.keeps(`value = "A=1"`), set...)
	n.hook("i", "misbehave", "")
	h = n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	h.keepForEver()
	return n, h, func(job string) (calls int) {
		for _, call := range n.calls("log") {
			if strings.HasPrefix(call, "execjob_attach "+job+" ") {
				calls++
			}
		}
		return calls
	}
}

// keeps is the configuration of such a hook.
func (n *node) keeps(more string) string {
	return fmt.Sprintf("mode = \"keep\"\nevent = \"execjob_attach\"\nlog = %q\n%s", filepath.Join(n.dir, "log"), more)
}

// keepForEver has answers not end by time: a test may be slow.
func (h *Host) keepForEver() {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, p := range h.plugins {
		p.kept.mu.Lock()
		p.kept.limit = time.Hour
		p.kept.mu.Unlock()
	}
}

func attach(t *testing.T, h *Host, job string, times int) {
	t.Helper()
	for range times {
		if v := must(t, h, hostapi.EventAttach, job); v.SetEnv["A"] != "1" || v.Keep {
			t.Errorf("attach: set_env %v, keep %v", v.SetEnv, v.Keep)
		}
	}
}

// An answer that the hook wants kept holds for the job until something happens to it, or the hook tells or hears of it.
func TestKept(t *testing.T) {
	tests := []struct {
		name string
		set  []string
		then func(t *testing.T, n *node, h *Host)
		want int // calls for four attaches, of which then is in the middle
	}{
		{name: "nothing happens", want: 1},
		{name: "another job's event", want: 1, then: func(t *testing.T, _ *node, h *Host) { must(t, h, hostapi.EventBegin, "2.srv") }},
		{name: "another hook's periodic", want: 1, then: func(t *testing.T, _ *node, h *Host) {
			h.askAll(t.Context(), []link{place{h, "i"}}, event(hostapi.EventPeriodic, ""), caller{})
		}},
		{name: "launch", want: 2, then: send(hostapi.EventLaunch)},
		{name: "resize", want: 2, then: send(hostapi.EventResize)},
		{name: "suspension", want: 2, then: send(hostapi.EventPostsuspend, hostapi.EventPreresume)},
		{name: "an event that the hook does not get", set: []string{"event=execjob_begin,execjob_attach"}, want: 2, then: send(hostapi.EventPreterm)},
		{name: "a run anew", want: 2, then: send(hostapi.EventEnd, hostapi.EventBegin)},
		{name: "periodic", want: 2, then: func(t *testing.T, _ *node, h *Host) {
			if _, err := h.Judge(t.Context(), event(hostapi.EventPeriodic, "")); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "periodic about some jobs", want: 2, then: func(t *testing.T, _ *node, h *Host) {
			if err := h.Refresh(t.Context(), "1.srv"); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "notice", want: 2, then: func(t *testing.T, _ *node, h *Host) {
			if err := h.heard(h.plugin("h"), "1.srv", &hostapi.JobUpdate{Notes: []string{"told"}}); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "crash", want: 2, then: func(t *testing.T, _ *node, h *Host) {
			pid := hookPID(t, h, "h")
			process, err := os.FindProcess(pid)
			if err != nil {
				t.Fatal(err)
			}
			process.Kill()
			eventually(t, "started again", func() bool { p := hookPID(t, h, "h"); return p != pid && p != 0 })
		}},
		{name: "attribute", want: 2, then: reload(func(n *node) error { return n.registry.Set("h", "order=7") })},
		{name: "another hook's registration", want: 2, then: reload(func(n *node) error { n.hook("j", "misbehave", ""); return nil })},
		{name: "configuration", want: 2, then: reload(func(n *node) error { n.hook("h", "misbehave", n.keeps("value = \"A=1\"\n")); return nil })},
		{name: "disabled for a while", want: 2, then: func(t *testing.T, n *node, h *Host) {
			reload(func(n *node) error { return n.registry.Set("h", "enabled=false") })(t, n, h)
			must(t, h, hostapi.EventAttach, "1.srv")
			reload(func(n *node) error { return n.registry.Set("h", "enabled=true") })(t, n, h)
		}},
		{name: "debugged", set: []string{"debug=true"}, want: 4},
		{name: "debugged from then on", want: 3, then: reload(func(n *node) error { return n.registry.Set("h", "debug=true") })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n, h, asked := keeper(t, tt.set...)
			attach(t, h, "1.srv", 2)
			if tt.then != nil {
				tt.then(t, n, h)
			}
			h.keepForEver()
			eventually(t, "the hook runs", func() bool { return hookPID(t, h, "h") != 0 }) // what a start holds up is not kept
			attach(t, h, "1.srv", 2)
			if got := asked("1.srv"); got != tt.want {
				t.Errorf("asked %d times, want %d", got, tt.want)
			}
		})
	}
}

func send(events ...hostapi.Event) func(*testing.T, *node, *Host) {
	return func(t *testing.T, _ *node, h *Host) {
		t.Helper()
		for _, e := range events {
			must(t, h, e, "1.srv")
		}
	}
}

func reload(change func(*node) error) func(*testing.T, *node, *Host) {
	return func(t *testing.T, n *node, h *Host) {
		t.Helper()
		if err := change(n); err != nil {
			t.Fatal(err)
		}
		if err := h.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Many processes of several jobs come at once.
func TestKeptAtOnce(t *testing.T) {
	t.Parallel()
	_, h, asked := keeper(t)
	jobs := []string{"1.srv", "2.srv", "3.srv"}
	for _, job := range jobs[1:] {
		must(t, h, hostapi.EventBegin, job)
	}
	var wg sync.WaitGroup
	for range 20 {
		for _, job := range jobs {
			wg.Go(func() { attach(t, h, job, 1) })
		}
	}
	wg.Wait()
	for _, job := range jobs {
		if got := asked(job); got != 1 {
			t.Errorf("job %s: asked %d times", job, got)
		}
	}
	must(t, h, hostapi.EventEpilogue, "2.srv")
	must(t, h, hostapi.EventEnd, "2.srv")
	attach(t, h, "1.srv", 1)
	if got := asked("1.srv"); got != 1 {
		t.Errorf("after another job's end: asked %d times", got)
	}
	if k := h.plugin("h").kept.answers; len(k) != 2 {
		t.Errorf("kept for %d jobs, want the 2 that live", len(k))
	}
}

// What is not to be kept is asked for each time.
func TestNotKept(t *testing.T) {
	for _, tt := range []struct{ name, config string }{
		{"accepts", ""},
		{"sets a variable", "mode = \"env\"\nvalue = \"A=1\""},
		{"rejects", "mode = \"reject\"\nvalue = \"no\""},
		{"fails", "mode = \"error\"\nvalue = \"busy\""},
		{"has a state", `mode = "state"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.hook("h", "misbehave", fmt.Sprintf("event = \"execjob_attach\"\nlog = %q\n%s", filepath.Join(n.dir, "log"), tt.config))
			h := n.open()
			must(t, h, hostapi.EventBegin, "1.srv")
			for range 3 {
				judge(t, h, hostapi.EventAttach, "1.srv")
			}
			if got := strings.Count(strings.Join(n.calls("log"), " "), "execjob_attach"); got != 3 {
				t.Errorf("asked %d times of 3", got)
			}
		})
	}
}

// An answer ends with time and with its instance; one that was asked for before something happened, and comes after, is not kept.
func TestKeptAnswers(t *testing.T) {
	now, a, b := time.Now(), &instance{}, &instance{}
	out := &hostapi.Outcome{Keep: true}
	k := kept{limit: time.Minute}
	has := func(job string, from *instance, at time.Duration) bool {
		said, _ := k.answer(job, from, now.Add(at))
		return said != nil
	}
	_, era := k.answer("1", a, now)
	k.keep("1", a, out, era, now)
	if !has("1", a, time.Minute-1) || has("1", a, time.Minute) || has("1", b, 0) || has("2", a, 0) {
		t.Errorf("kept: %+v", k.answers)
	}
	said, _ := k.answer("1", a, now)
	if said.Reject = true; out.Reject || k.answers["1"].out.Reject {
		t.Error("what was given out can be changed")
	}
	for _, end := range []func(){func() { k.forget("1") }, func() { k.forget("2") }, k.forgetAll} {
		_, era = k.answer("1", a, now)
		end()
		k.forget("1")
		if k.keep("1", a, out, era, now); has("1", a, 0) {
			t.Error("an answer from before is kept")
		}
	}
	_, era = k.answer("1", a, now)
	k.keep("1", a, out, era, now)
	k.keep("2", a, out, era, now.Add(time.Second))
	k.keep("3", a, out, era, now.Add(time.Minute))
	if len(k.answers) != 2 || has("1", a, 0) || !has("2", a, time.Minute) {
		t.Errorf("kept: %+v", k.answers)
	}
	if k.keep("4", b, out, era, now.Add(time.Minute)); len(k.answers) != 1 {
		t.Errorf("kept of an instance that is gone: %+v", k.answers)
	}
}
