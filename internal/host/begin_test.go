package host

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
)

// Of two hosts that begin one job one does, and what the other undoes is not the first one's.
func TestTwoHostsBeginOneJob(t *testing.T) {
	n := newNode(t)
	log := filepath.Join(n.dir, "log")
	n.hook("a", "misbehave", fmt.Sprintf("log = %q", log))
	selves := []hostapi.ProcessID{self, {PID: 4_000_005, StartTime: 5}}
	var hosts []*Host
	for _, id := range selves {
		n.procs.add(id)
		n.options = func(o *Options) { o.Self = id }
		hosts = append(hosts, n.open())
	}
	for job := range 20 {
		id := fmt.Sprintf("%d.srv", job+1)
		verdicts, errs := make([]*Verdict, 2), make([]error, 2)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i, h := range hosts {
			wg.Go(func() {
				<-start
				verdicts[i], errs[i] = h.Judge(t.Context(), event(hostapi.EventBegin, id))
			})
		}
		close(start)
		wg.Wait()
		winner := slices.IndexFunc(errs, func(err error) bool { return err == nil })
		if winner < 0 || verdicts[winner].Reject {
			t.Fatalf("job %s: nobody began it: %v", id, errs)
		}
		if err := errs[1-winner]; hostapi.KindOf(err) != hostapi.KindBusy || strings.Count(err.Error(), id) != 1 {
			t.Fatalf("job %s: the loser's error %v, want busy, with the job's id once", id, err)
		}
		if rec := n.record(id); rec == nil || rec.Host != selves[winner] || rec.Begun.IsZero() {
			t.Fatalf("job %s: record %+v, want the winner's", id, rec)
		}
	}
	if calls := strings.Join(n.calls("log"), "\n"); strings.Contains(calls, "abort") || strings.Count(calls, "execjob_begin") != 20 {
		t.Errorf("calls:\n%s", calls)
	}
}

// A hook that answers begin with an error of kind job, busy or node has undone its own; one that crashes has not.
func TestWhoIsUndone(t *testing.T) {
	for kind, undone := range map[string]bool{"busy": false, "job": false, "node": false, "internal": true} {
		t.Run(kind, func(t *testing.T) {
			n := newNode(t)
			n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nvalue = %q\nlog = %q", "error", kind, filepath.Join(n.dir, "log")))
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
		h := fakeHook{Hook: Hook{Name: name, Attributes: DefaultAttributes()}, calls: &calls}
		h.answer = at(hostapi.EventBegin, &hostapi.Outcome{ResourcesUsed: hostapi.Resources{"mem": value}}, nil)
		return h
	}
	c := &chain{links: []link{conflict("a", "1kb"), conflict("b", "2kb")}, req: event(hostapi.EventBegin, "1")}
	c.run(t.Context())
	if err := c.undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(calls, ", "); got != "begin a, begin b, abort b, abort a" {
		t.Errorf("after a conflict: %s", got)
	}
}
