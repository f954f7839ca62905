package sister

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// Refresh asks the other hosts as well. A host that does not tell keeps its last numbers, and is
// missing until it does.
func TestRefreshAsksSisters(t *testing.T) {
	c := newCluster(t, 3, func(name string) string { return "cput = " + name[1:] + ".0\n" }, nil)
	c.must(begin, launch)
	var isDown map[string]bool
	c.breaks(func(host string, _ hostapi.Event) fault {
		if isDown[host] {
			return down
		}
		return none
	})
	for _, step := range []struct {
		down    map[string]bool
		missing string
		other   float64
	}{
		{map[string]bool{"n3": true}, "n3: connection refused", 2},
		{nil, "", 5},
		{map[string]bool{"n2": true}, "n2: connection refused", 5},
		{nil, "", 5},
	} {
		isDown = step.down
		must.NoError(t, c.head().Refresh(t.Context(), "1.srv"))
		rec := c.members["n1"].record("1.srv")
		var missing []string
		for host, cause := range rec.Missing {
			missing = append(missing, host+": "+cause)
		}
		if got := strings.Join(missing, "|"); got != step.missing {
			t.Errorf("missing %q, want %q", got, step.missing)
		}
		if got := onOthers(rec); got != step.other {
			t.Errorf("other hosts have used %v, want %v", got, step.other)
		}
	}
	isDown = nil
	if v := c.judge(preterm, "1.srv"); v.Reject {
		t.Error(v.Message)
	}
	if calls := c.members["n1"].calls("log"); calls[len(calls)-1] != "execjob_preterm 1.srv - 5" {
		t.Errorf("the hook got %q, want 5 s of other hosts", calls[len(calls)-1])
	}
	c.must(epilogue)
	if err := c.head().Refresh(t.Context(), "1.srv"); err != nil {
		t.Error(err)
	}
}

// A hook that wants other hosts asked gets what they have used by then; its calls for other jobs do
// not wait for that.
func TestAskSisters(t *testing.T) {
	c := newCluster(t, 3, func(name string) string {
		if name == "n1" {
			return "again = '1ms'\nask = true\nsignal = 'TERM'\n"
		}
		return "cput = 10.0\n"
	}, nil)
	begun := make(chan struct{})
	c.breaks(func(_ string, e hostapi.Event) fault {
		if e == hostapi.EventPeriodic { // the hook's 1 ms may be over before the others have begun
			<-begun
		}
		return none
	})
	c.must(begin)
	close(begun)
	periodic := func() string {
		for _, call := range c.members["n1"].calls("log") {
			if strings.HasPrefix(call, "exechost_periodic 1.srv") {
				return call
			}
		}
		return ""
	}
	plugintest.Eventually(t, "the hook is called", func() bool { return periodic() != "" })
	if got := periodic(); got != "exechost_periodic 1.srv - 20" {
		t.Errorf("the hook got %q, want 20 s of other hosts", got)
	}
	for _, name := range []string{"n2", "n3"} { // and what it answers goes to them
		plugintest.Eventually(t, "the signal reaches "+name, func() bool {
			return c.events(name, "1.srv") == "begin preterm=TERM"
		})
	}
	c.must(epilogue, end)
}

// A host that gives no answer is missing, and its last numbers stay.
func TestHostWithoutAnAnswerIsMissing(t *testing.T) {
	c := newCluster(t, 2, func(string) string { return "cput = 2.0\n" }, nil)
	c.must(begin, launch)
	jobs := c.members["n1"].jobs
	jobs.Measure(t.Context(), "1.srv")
	jobs.Others = silent{c}
	jobs.Measure(t.Context(), "1.srv")
	jobs.Measure(t.Context(), "9.srv")
	if rec := c.members["n1"].record("1.srv"); rec.Missing["n2"] != "no answer" || onOthers(rec) != 2 {
		t.Errorf("missing %v, hosts %v", rec.Missing, rec.Hosts)
	}
	jobs.Others = c
	c.must(end)
}

type silent struct{ *cluster }

func (silent) Usage(context.Context, string, []string) map[string]Usage { return nil }

// However many reports of a job are asked for, its hosts are asked once at a time.
func TestReportsAskTogether(t *testing.T) {
	c := newCluster(t, 2, func(string) string { return "cput = 2.0\n" }, nil)
	c.must(begin, launch)
	var asked atomic.Int32
	goOn := make(chan bool)
	c.breaks(func(_ string, e hostapi.Event) fault {
		if e == hostapi.EventPeriodic {
			asked.Add(1)
			<-goOn
		}
		return none
	})
	const reports = 5
	var all sync.WaitGroup
	for range reports {
		all.Go(func() {
			if err := c.head().Refresh(t.Context(), "1.srv"); err != nil {
				t.Error(err)
			}
		})
	}
	plugintest.Eventually(t, "all have asked the hooks here", func() bool {
		log := strings.Join(c.members["n1"].calls("log"), "\n")
		return strings.Count(log, "exechost_periodic 1.srv") == reports && asked.Load() > 0
	})
	close(goOn)
	all.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("n2 was asked %d times", n)
	}
	if got := onOthers(c.members["n1"].record("1.srv")); got != 2 {
		t.Errorf("other hosts have used %v", got)
	}
	if err := c.head().Refresh(t.Context(), "1.srv"); err != nil || asked.Load() != 2 {
		t.Errorf("%v, n2 was asked %d times", err, asked.Load())
	}
}

// onOthers returns the cpu time that a job has used on other hosts than n1.
func onOthers(rec *jobstate.Record) (sum float64) {
	for name, u := range rec.Hosts {
		if name != "n1" && u.CPUTSeconds != nil {
			sum += *u.CPUTSeconds
		}
	}
	return sum
}

// A mother superior that can ask no other host says so in the report: a part of the use is not all
// of it.
func TestOthersThatCannotBeAsked(t *testing.T) {
	n, h := newMotherSuperior(t, nil)
	for _, e := range []hostapi.Event{begin, launch, epilogue, end} {
		fromPBS(t, h, e, "(n1:ncpus=1)+(n2:ncpus=1)")
	}
	b, _, err := n.ledger.Last(t.Context(), "1.srv")
	if err != nil || !strings.Contains(string(b), `"missing":{"n2":"[sister] is not configured on this host"}`) {
		t.Errorf("report %s, %v", b, err)
	}
}

// newMotherSuperior opens a host that pbs_mom sends events, and that reaches no other.
func newMotherSuperior(t *testing.T, usage func(*jobstate.Record, []string) map[string]Usage) (*node, *host.Host) {
	n := newNode(t)
	j := n.jobs("n1", nil)
	j.MoMUsage = usage
	n.options = func(o *host.Options) { o.Sisters = j.Of }
	return n, n.open()
}

// fromPBS has a host carry out an event of job 1.srv that pbs_mom has sent.
func fromPBS(t *testing.T, h *host.Host, e hostapi.Event, execVnode string) {
	t.Helper()
	req := event(e, "1.srv")
	req.Job.ExecVnode = execVnode
	if e == launch {
		req.PID = 4_000_002
	}
	if out, err := h.HandlePBS(t.Context(), req, "/var/spool/pbs", hostapi.ProcessID{}); err != nil || out.Reject {
		t.Fatalf("%s: %+v, %v", e, out, err)
	}
}

// The report has each host that pbs_mom names, and says of each other host why its part is missing.
func TestUsageThatMoMHasOfASisterIsInTheReport(t *testing.T) {
	cput, mem := 4.0, int64(1<<20)
	momUsage := func(rec *jobstate.Record, hosts []string) map[string]Usage {
		if rec.Begun.IsZero() || !slices.Equal(hosts, []string{"n2", "n3"}) {
			t.Errorf("asked about %v of a job begun at %v", hosts, rec.Begun)
		}
		return map[string]Usage{
			"n2": {Usage: &hostapi.HostUsage{CPUTSeconds: &cput, MemBytes: &mem}},
			"n3": {Err: errors.New("no line")},
		}
	}
	n, h := newMotherSuperior(t, momUsage)
	for _, e := range []hostapi.Event{begin, launch, epilogue, end} {
		if e == epilogue {
			must.NoError(t, h.Refresh(t.Context(), "1.srv"))
			if got := n.record("1.srv").Missing["n2"]; got != "pbs_mom tells when the job ends" {
				t.Errorf("while the job runs: n2 %q", got)
			}
		}
		fromPBS(t, h, e, "(n1:ncpus=1)+(n2:ncpus=1)+(n3:ncpus=1)")
	}
	b, _, err := n.ledger.Last(t.Context(), "1.srv")
	var report struct {
		Hosts   map[string]*hostapi.HostUsage
		Missing map[string]string
	}
	must.NoError(t, errors.Join(err, json.Unmarshal(b, &report)))
	if u := report.Hosts["n2"]; u == nil || *u.CPUTSeconds != cput || *u.MemBytes != mem {
		t.Errorf("n2: %+v", u)
	}
	must.Equal(t, "missing", map[string]string{"n3": "no line"}, report.Missing)
}
