package report

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

// jobOf is the report of a job that changes; end is zero for one that lives.
func jobOf(end time.Time, change func(*jobstate.Record)) *Report {
	return fromRecord(caseRecord("1.srv", "x", change), end)
}

func TestStatesOfJobs(t *testing.T) {
	end := begun.Add(time.Hour)
	status := func(n int) func(*jobstate.Record) { return func(r *jobstate.Record) { r.ExitStatus = &n } }
	for _, tt := range []struct {
		name, word string
		r          *Report
		states     []string
	}{
		{"runs", "running", jobOf(time.Time{}, func(r *jobstate.Record) {
			r.Ended, r.ExitStatus = jobstate.Moment{}, nil
		}), []string{"running"}},
		{"ok", "ok", jobOf(end, status(0)), []string{"finished", "ok"}},
		{"failed", "failed", jobOf(end, status(3)), []string{"finished", "failed"}},
		{"killed", "killed", jobOf(end, status(143)), []string{"finished", "failed", "killed"}},
		{"killed in PBS's words", "killed", jobOf(end, status(271)), []string{"finished", "failed", "killed"}},
		{"not known", "failed", jobOf(end, func(r *jobstate.Record) {
			r.ExitStatus = nil
		}), []string{"finished", "failed"}},
		{"not known on its second host", "", jobOf(end, func(r *jobstate.Record) {
			r.ExitStatus, r.Job.MotherSuperior = nil, false
		}), []string{"finished"}},
		{"oom", "oom", fromRecord(cases["leaking"], end), []string{"finished", "failed", "killed", "oom"}},
		{"oom of a child", "ok", jobOf(end, func(r *jobstate.Record) {
			r.ExitStatus, r.Hosts["n1"].OOMKills = ptr(0), ptr(int64(1))
		}), []string{"finished", "ok", "oom"}},
		{"out of time", "timeout", jobOf(end, status(-29)), []string{"finished", "failed", "timeout"}},
		{"cancelled", "cancelled", jobOf(end, func(r *jobstate.Record) {
			r.ExitStatus, r.Terminated = ptr(271), true
		}), []string{"finished", "failed", "killed", "cancelled"}},
		{"lost its host", "node_failure", jobOf(end, status(-20)), []string{"finished", "failed", "node_failure"}},
		{"not started", "not_started", jobOf(end, func(r *jobstate.Record) {
			r.Launched, r.ExitStatus = jobstate.Moment{}, ptr(-2)
		}), []string{"finished", "failed", "not_started"}},
	} {
		var matched []string
		for _, name := range StateNames() {
			if (Filter{States: []string{name}}).Matches(tt.r) {
				matched = append(matched, name)
			}
		}
		must.Equal(t, tt.name, tt.states, matched)
		must.Equal(t, tt.name, tt.word, tt.r.outcome().State)
	}
}

func TestFilterChoosesByUserHostAndEnd(t *testing.T) {
	end := begun.Add(time.Hour)
	r := fromRecord(cases["imbalanced"], end)
	end = *r.End // to milliseconds
	r.Missing = map[string]string{"n7": "silent"}
	live := jobOf(time.Time{}, func(r *jobstate.Record) { r.Ended, r.ExitStatus = jobstate.Moment{}, nil })
	all := []string{"running", "finished"}
	for name, tt := range map[string]struct {
		f           Filter
		ended, runs bool
	}{
		"nothing":         {Filter{}, true, false},
		"both":            {Filter{States: all}, true, true},
		"its id":          {Filter{States: all, Job: r.Job}, true, false},
		"its number":      {Filter{States: all, Job: "1"}, false, true},
		"its name":        {Filter{States: all, Name: strings.ToUpper(r.Name)}, true, false},
		"part of a name":  {Filter{States: all, Name: r.Name[1:]}, false, false},
		"its user":        {Filter{States: all, User: "alice"}, true, true},
		"its user's uid":  {Filter{States: all, User: "1000"}, true, true},
		"an array":        {Filter{States: all, Array: "104[]"}, false, false},
		"another user":    {Filter{States: all, User: "bob"}, false, false},
		"another number":  {Filter{States: all, User: "0"}, false, false},
		"a host":          {Filter{States: all, Host: "n4"}, true, false},
		"its long name":   {Filter{States: all, Host: "n4.cluster"}, true, false},
		"a missing host":  {Filter{States: all, Host: "n7"}, true, false},
		"of both":         {Filter{States: all, Host: "n1"}, true, true},
		"another host":    {Filter{States: all, Host: "n9"}, false, false},
		"since its end":   {Filter{States: all, Since: end}, true, true},
		"since later":     {Filter{States: all, Since: end.Add(time.Second)}, false, true},
		"until its end":   {Filter{States: all, Until: end}, false, false},
		"until later":     {Filter{States: all, Until: end.Add(time.Second)}, true, false},
		"of a span":       {Filter{Since: begun, Until: end.Add(time.Second)}, true, false},
		"of another span": {Filter{Since: begun, Until: end}, false, false},
	} {
		if tt.f.Matches(r) != tt.ended || tt.f.Matches(live) != tt.runs {
			t.Errorf("%s: ended %t, live %t", name, tt.f.Matches(r), tt.f.Matches(live))
		}
		again, err := ParseFilter(tt.f.Values())
		must.NoError(t, err)
		must.Equal(t, name, tt.f, again)
	}
	if err := (Filter{States: []string{"asleep"}}).Check(); err == nil {
		t.Error("a state that is none")
	}
}

func TestTimesAsPeopleTypeThem(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 24, 9, 30, 15, 0, zone)
	day := func(d, h, m, s int) time.Time { return time.Date(2026, 11, d, h, m, s, 0, zone) }
	for text, want := range map[string]time.Time{
		"2026-11-20": day(20, 0, 0, 0), "2026-11-20T10:00": day(20, 10, 0, 0), "2026-11-20 10:00": day(20, 10, 0, 0),
		"2026-11-20T10:00:07": day(20, 10, 0, 7), "2026-11-20T10:00:07Z": day(20, 11, 0, 7),
		"2026-11-20T10:00:07+01:00": day(20, 10, 0, 7), "10:00": day(24, 10, 0, 0), "08:05:01": day(24, 8, 5, 1),
		"3d": day(21, 9, 30, 15), "12h": day(23, 21, 30, 15), "12h ago": day(23, 21, 30, 15),
		"1d12h": day(22, 21, 30, 15), "1d 12h ago": day(22, 21, 30, 15),
		"30m": day(24, 9, 0, 15), "2w": day(10, 9, 30, 15), "15s": day(24, 9, 30, 0), "now": now,
		"today": day(24, 0, 0, 0), " yesterday ": day(23, 0, 0, 0),
	} {
		got, err := ParseTime(text, now)
		if err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "ago", "3", "d", "3 days", "2026-13-01", "24.11.2026", "25:00", "10", "-3d",
		"3d!", "9999w9999w9999w", "99999999d", "1.5d"} {
		if got, err := ParseTime(text, now); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

// FuzzParseFilter reads a query of a list of reports, and what that becomes as a query.
func FuzzParseFilter(f *testing.F) {
	f.Add("job=12&name=x")
	f.Add("user=u&since=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00.5%2B01:00&state=ok,oom&host=n1&limit=5")
	f.Add("limit=-1")
	f.Add("state=")
	f.Fuzz(func(t *testing.T, text string) {
		query, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		got, err := ParseFilter(query)
		if err != nil {
			if len(got.Values()) > 0 || len(err.Error()) > 400+8*len(text) {
				t.Errorf("%q: %+v beside %v", text, got, err)
			}
			return
		}
		again, err := ParseFilter(got.Values())
		if err != nil || !got.Since.Equal(again.Since) || !got.Until.Equal(again.Until) ||
			got.User != again.User || got.Job != again.Job || got.Name != again.Name ||
			!slices.Equal(got.States, again.States) || got.Host != again.Host || got.Limit != again.Limit {
			t.Errorf("%q: %+v, as a query %+v, %v", text, got, again, err)
		}
	})
}

// FuzzParseTime reads a time of a command line. A time ago is not in the future.
func FuzzParseTime(f *testing.F) {
	for _, text := range []string{"2026-11-24", "2026-11-24T10:00", "10:00", "3d", "1d 12h ago", "yesterday", "9999w",
		"2026-11-24T10:00:00.5+14:00"} {
		f.Add(text)
	}
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		at, err := ParseTime(text, now)
		if err != nil {
			if !at.IsZero() {
				t.Errorf("%q: %v beside %v", text, at, err)
			}
			return
		}
		if _, isAgo := ago(text); isAgo && (at.After(now) || now.Sub(at) > longAgo) {
			t.Errorf("%q is %v at %v", text, at, now)
		}
		if again, err := ParseTime(at.Format(time.RFC3339Nano), now); err != nil || !again.Equal(at) {
			t.Errorf("%q is %v, which is %v, %v", text, at, again, err)
		}
	})
}
