package sister

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

// A host that is away at the end holds nothing up: the report says what is missing, and the host
// asks.
func TestEpilogueOfUnreachableHost(t *testing.T) {
	for _, with := range []fault{down, hung, lost} {
		t.Run(fmt.Sprint(with), func(t *testing.T) {
			c := newCluster(t, 3, func(string) string { return "cput = 2.0\nmem = '10kb'\n" }, nil)
			c.must(begin, launch)
			c.breaks(func(host string, _ hostapi.Event) fault {
				if host == "n2" {
					return with
				}
				return none
			})
			must.NoError(t, c.head().Refresh(t.Context(), "1.srv"))
			v := c.judge(epilogue, "1.srv")
			if v.Reject || v.ResourcesUsed["mem"] != "20kb" {
				t.Errorf("epilogue: %+v", v.Outcome)
			}
			rec := c.members["n1"].record("1.srv")
			if len(rec.Missing) != 1 || rec.Missing["n2"] == "" || rec.Hosts["n2"] != nil || rec.Hosts["n3"] == nil {
				t.Errorf("missing %v, hosts %v", rec.Missing, rec.Hosts)
			}
			if got := strings.Join(rec.Notes, "|"); !strings.HasPrefix(got, "n2 has not told what was used there: ") {
				t.Errorf("notes %q", got)
			}
			c.must(end)
			if got := c.holds("1.srv"); got != "n2" && with != lost || got != "" && with == lost {
				t.Errorf("held by %q", got)
			}
			c.ask()
			if got := c.holds("1.srv"); got != "" {
				t.Errorf("held by %q after n2 has asked", got)
			}
		})
	}
}

// A host that missed the last events of a job asks about it and ends it, as an end or as what never
// ran.
func TestHostThatMissedTheEndAsks(t *testing.T) {
	for _, tt := range []struct {
		before []hostapi.Event
		last   hostapi.Event
		want   string // events of n2
	}{
		{[]hostapi.Event{begin, prologue}, end, "begin prologue epilogue end"},
		{[]hostapi.Event{begin}, abort, "begin abort"},
	} {
		c := newCluster(t, 3, nil, nil)
		c.must(tt.before...)
		c.breaks(func(string, hostapi.Event) fault { return down })
		must.NoError(t, c.head().Refresh(t.Context(), "1.srv"))
		c.must(tt.last)
		if got := c.holds("1.srv"); got != "n2 n3" {
			t.Errorf("%s: held by %q", tt.last, got)
		}
		c.ask()
		if got := c.holds("1.srv"); got != "" || c.events("n2", "1.srv") != tt.want {
			t.Errorf("%s: held by %q, n2 got %q, want %q", tt.last, got, c.events("n2", "1.srv"), tt.want)
		}
	}
}

// A failed tear-down of other hosts' hooks is told, and theirs to finish.
func TestEndRejectedElsewhere(t *testing.T) {
	c := newCluster(t, 2, nil, func(name string, n *node) {
		if name == "n2" {
			n.hook("b", "misbehave", "mode = 'error'\nvalue = 'node'\nevent = 'execjob_epilogue'", 2)
		}
	})
	c.must(begin, launch)
	if v := c.judge(epilogue, "1.srv"); !v.Reject || !strings.HasPrefix(v.Message, "n2: execjob_epilogue") {
		t.Errorf("%+v", v.Outcome)
	}
	c.must(end)
	if got := c.holds("1.srv"); got != "" {
		t.Errorf("held by %q", got)
	}
}

// Texts of other hosts are bounded, and no terminal is steered by them.
func TestGatheredTexts(t *testing.T) {
	g := &gathered{event: epilogue}
	long := strings.Repeat("x", 2*hostapi.MaxLine)
	for i := range 300 {
		out := &hostapi.Outcome{JobStderr: []string{"a\x1b[2Jb\nc"}, Notes: []string{long}}
		g.replies = append(g.replies, reply{fmt.Sprintf("h%d", i), Answer{Outcome: out}})
	}
	for range 20 {
		r := reply{"away", Answer{Err: errors.New("away: no route")}}
		g.replies, g.silent = append(g.replies, r), append(g.silent, r)
	}
	lines, notes := g.lines(), g.notes()
	if len(lines) != maxGathered+1 || lines[0] != "h0: a [2Jb; c" ||
		lines[maxGathered] != "further lines for the job's standard error of other hosts: 44" {
		t.Errorf("%d lines: %q", len(lines), lines[0])
	}
	last := notes[len(notes)-1]
	if len(notes) != maxGathered+1+maxSilent+1 || last != "further hosts that did not answer: 12" ||
		len(notes[0]) > hostapi.MaxLine+len("h0: ...") {
		t.Errorf("%d notes, the last is %q", len(notes), last)
	}
}

// The end tells all that another host's hooks have told of a job before, as its head has it from
// nowhere else.
func TestEpilogueTellsAll(t *testing.T) {
	c := newCluster(t, 2, func(string) string { return "cput = 2.0\n" }, nil)
	c.must(begin, launch)
	n2 := c.members["n2"]
	n2.change("1.srv", func(rec *jobstate.Record) *jobstate.Record {
		rec.AddNote("adopted pid 7 (sleep): session")
		put(&rec.Hosts, "n2", &hostapi.HostUsage{Ranks: []hostapi.RankUsage{{Rank: 3, PID: 7}}})
		return rec
	})
	c.must(epilogue)
	rec := c.members["n1"].record("1.srv")
	if got := strings.Join(rec.Notes, "|"); got != "n2: adopted pid 7 (sleep): session" {
		t.Errorf("notes %q", got)
	}
	if u := rec.Hosts["n2"]; u == nil || len(u.Ranks) != 1 || *u.CPUTSeconds != 2 {
		t.Errorf("n2 told %+v", u)
	}
	c.must(end)
}

// pbs_mom tells each host of its jobs itself. The first one asks the others for the report alone,
// and no event goes to them.
func TestUsageUnderMoM(t *testing.T) {
	c := newCluster(t, 3, func(string) string { return "cput = 2.0\n" }, nil)
	each := func(events ...hostapi.Event) {
		t.Helper()
		for _, e := range events {
			for _, name := range slices.Backward(c.names) {
				if e == end && name != "n1" {
					continue
				}
				r := c.event(e, "1.srv")
				r.Spread, r.Job.MotherSuperior = false, name == "n1"
				if v, err := c.members[name].host.Judge(t.Context(), r); err != nil || v.Reject {
					t.Fatalf("%s on %s: %+v, %v", e, name, v, err)
				}
			}
		}
	}
	each(begin, launch)
	must.NoError(t, c.head().Refresh(t.Context(), "1.srv"))
	if rec := c.members["n1"].record("1.srv"); len(rec.Hosts) != 3 || len(rec.Missing) > 0 {
		t.Errorf("live: hosts %v, missing %v", rec.Hosts, rec.Missing)
	}
	c.breaks(func(host string, _ hostapi.Event) fault {
		if host == "n3" {
			return down
		}
		return none
	})
	each(epilogue)
	rec := c.members["n1"].record("1.srv")
	if len(rec.Hosts) != 3 || rec.Missing["n3"] == "" || rec.Missing["n2"] != "" {
		t.Errorf("epilogue: hosts %v, missing %v", rec.Hosts, rec.Missing)
	}
	for _, name := range []string{"n2", "n3"} {
		if rec := c.members[name].record("1.srv"); len(rec.Hosts) != 1 {
			t.Errorf("%s has asked others: %v", name, rec.Hosts)
		}
	}
	each(end)
	if len(c.sent) > 0 {
		t.Errorf("sent %q", c.sent)
	}
}
