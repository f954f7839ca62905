package jobstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)

// What an earlier hookhost wrote, which knew the wall clock alone, is read as well.
func TestTimesFromJSON(t *testing.T) {
	for _, tt := range []struct {
		text string
		into any // *Moment or *Timer
		want any
	}{
		{`"2026-03-01T12:00:00.000000005Z"`, new(Moment), &Moment{Wall: noon}},
		{`{"wall":"2026-03-01T12:00:00.000000005Z","boot":"b","mono":7}`, new(Moment), &Moment{Wall: noon, Boot: "b", Mono: 7}},
		{`"2026-03-01T12:00:00.000000005Z"`, new(Timer), &Timer{At: Moment{Wall: noon}}},
		{`{"at":{"wall":"2026-03-01T12:00:00.000000005Z","boot":"b","mono":7}}`, new(Timer), &Timer{At: Moment{Wall: noon, Boot: "b", Mono: 7}}},
		{`{"elapsed":3000000000}`, new(Timer), &Timer{Elapsed: 3 * time.Second}},
		{`{"at":"2026-03-01T12:00:00.000000005Z"}`, new(Timer), &Timer{At: Moment{Wall: noon}}},
	} {
		if err := json.Unmarshal([]byte(tt.text), tt.into); err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		equal(t, tt.text, tt.into, tt.want)
		text, err := json.Marshal(tt.into)
		if err != nil {
			t.Fatal(err)
		}
		again := Timer{}
		if m, ok := tt.want.(*Moment); ok {
			tt.want, text = &Timer{At: *m}, fmt.Appendf(nil, `{"at":%s}`, text)
		}
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		equal(t, string(text), &again, tt.want)
	}
	for _, text := range []string{`"soon"`, `{"wall":1}`, `[]`, `7`} {
		if err := json.Unmarshal([]byte(text), new(Moment)); err == nil {
			t.Errorf("%s is read as a moment", text)
		}
	}
	if b, err := json.Marshal(&Record{}); err != nil || string(b) != `{"job":null,"phase":"","host":{"pid":0,"start_time":0}}` {
		t.Errorf("a record without times: %s, %v", b, err)
	}
}

func TestSub(t *testing.T) {
	m := Moment{Wall: noon, Boot: "b", Mono: time.Hour}
	for _, tt := range []struct {
		name string
		n    Moment
		want time.Duration
	}{
		{"same boot", Moment{Wall: noon.Add(24 * time.Hour), Boot: "b", Mono: time.Minute}, 59 * time.Minute},
		{"another boot", Moment{Wall: noon.Add(-time.Hour), Boot: "c", Mono: time.Minute}, time.Hour},
		{"unknown boot", Moment{Wall: noon.Add(-time.Hour), Mono: time.Minute}, time.Hour},
	} {
		if got := m.Sub(tt.n); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		if got := m.Add(time.Second).Sub(tt.n); got != tt.want+time.Second {
			t.Errorf("%s: %v a second later", tt.name, got)
		}
	}
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := NewClock("b")
		if err != nil {
			t.Fatal(err)
		}
		first := c.Now()
		time.Sleep(time.Hour)
		if d := c.Now().Sub(first); d != time.Hour {
			t.Errorf("%v have gone by, want 1h", d)
		}
		if at := c.Time(first); time.Since(at) != time.Hour {
			t.Errorf("it was %v ago", time.Since(at))
		}
		// Somebody has set the wall clock between the two.
		jumped := first
		jumped.Wall = jumped.Wall.Add(24 * time.Hour)
		if at := c.Time(jumped); time.Since(at) != time.Hour {
			t.Errorf("with the wall clock a day off it was %v ago", time.Since(at))
		}
		jumped.Boot = "another"
		if at := c.Time(jumped); time.Until(at) != 23*time.Hour {
			t.Errorf("of another boot: in %v, want 23h by the wall clock", time.Until(at))
		}
	})
}

func TestElapsed(t *testing.T) {
	at := func(d time.Duration) Moment { return Moment{Wall: noon.Add(d), Boot: "b", Mono: time.Hour + d} }
	for _, tt := range []struct {
		name string
		rec  Record
		want time.Duration
		due  bool // whether a timer by the job's clock runs
	}{
		{"not launched", Record{}, 0, false},
		{"running", Record{Launched: at(0)}, 10 * time.Second, true},
		{"was suspended", Record{Launched: at(0), Suspended: 4 * time.Second}, 6 * time.Second, true},
		{"is suspended", Record{Launched: at(0), Suspended: time.Second, SuspendedAt: at(5 * time.Second)}, 4 * time.Second, false},
		{"ended", Record{Launched: at(0), Suspended: time.Second, Ended: at(7 * time.Second)}, 6 * time.Second, false},
		{"wall clock set back", Record{Launched: Moment{Wall: noon.Add(24 * time.Hour), Boot: "b", Mono: time.Hour}}, 10 * time.Second, true},
		{"of another boot", Record{Launched: Moment{Wall: noon.Add(-time.Minute), Boot: "c", Mono: 99 * time.Hour}}, 70 * time.Second, true},
		{"launched in the future", Record{Launched: Moment{Wall: noon.Add(time.Hour)}}, 0, true},
	} {
		now := at(10 * time.Second)
		if got := tt.rec.Elapsed(now); got != tt.want {
			t.Errorf("%s: elapsed %v, want %v", tt.name, got, tt.want)
		}
		due, runs := tt.rec.Due(Timer{Elapsed: time.Minute}, now)
		if runs != tt.due || runs && due.Sub(now) != time.Minute-tt.want {
			t.Errorf("%s: due %v, %v", tt.name, due.Sub(now), runs)
		}
		if due, runs := tt.rec.Due(Timer{At: at(time.Minute)}, now); !runs || due.Sub(now) != 50*time.Second {
			t.Errorf("%s: a moment is due in %v, %v", tt.name, due.Sub(now), runs)
		}
	}
}

// A timer that rings later is no reason to write; one that rings earlier, comes or goes is.
func TestUpdateOfTimers(t *testing.T) {
	at := func(d time.Duration) Timer {
		return Timer{At: Moment{Wall: noon.Add(d), Boot: "b", Mono: time.Hour + d}}
	}
	for _, tt := range []struct {
		name    string
		change  func(*Record)
		written bool
	}{
		{"put off", func(r *Record) { r.Timers["a"] = at(time.Minute) }, false},
		{"put off, by the job's clock", func(r *Record) { r.Timers["b"] = Timer{Elapsed: time.Minute} }, false},
		{"both", func(r *Record) { r.Timers["a"], r.Timers["b"] = at(time.Minute), Timer{Elapsed: time.Minute} }, false},
		{"one put off, one earlier", func(r *Record) { r.Timers["a"], r.Timers["b"] = at(time.Minute), Timer{Elapsed: 1} }, true},
		{"earlier", func(r *Record) { r.Timers["a"] = at(-time.Minute) }, true},
		{"put off, and hosts are to be asked", func(r *Record) { t := at(time.Minute); t.Ask = true; r.Timers["a"] = t }, true},
		{"of the other kind", func(r *Record) { r.Timers["a"] = Timer{Elapsed: time.Hour} }, true},
		{"gone", func(r *Record) { delete(r.Timers, "a") }, true},
		{"one more", func(r *Record) { r.Timers["c"] = at(time.Minute) }, true},
		{"put off, and something else", func(r *Record) { r.Timers["a"], r.Phase = at(time.Minute), PhaseSuspended }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := store(t, t.TempDir())
			rec := sample("1.srv")
			rec.Timers = map[string]Timer{"a": at(0), "b": {Elapsed: time.Second}}
			put(t, s, rec)
			before := readFile(t, s.path)
			var made *Record
			err := s.Update(t.Context(), "1.srv", func(r *Record) (*Record, error) {
				tt.change(r)
				made = r
				return r, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if written := string(readFile(t, s.path)) != string(before); written != tt.written {
				t.Errorf("written %v, want %v", written, tt.written)
			}
			if tt.written {
				equal(t, "stored", list(t, s), []*Record{made})
			}
			want := sample("1.srv")
			want.Timers = map[string]Timer{"a": at(0), "b": {Elapsed: time.Second}}
			tt.change(want)
			equal(t, "what the caller has", made, want)
		})
	}
}

func TestUpdateAll(t *testing.T) {
	s := store(t, t.TempDir())
	put(t, s, sample("1.srv"), sample("2.srv"), sample("3.srv"))
	var seen []string
	err := s.UpdateAll(t.Context(), []string{"3.srv", "../x", "1.srv", "2.srv", "4.srv"}, func(id string, rec *Record) (*Record, error) {
		seen = append(seen, fmt.Sprint(id, rec != nil))
		switch id {
		case "1.srv":
			return nil, nil
		case "2.srv":
			rec.Phase = PhaseExiting
			return rec, errStop
		case "4.srv":
			return sample("4.srv"), nil
		}
		rec.Phase = PhaseSuspended
		return rec, nil
	})
	if !errors.Is(err, errStop) {
		t.Errorf("error %v, want that of job 2", err)
	}
	equal(t, "called for", seen, []string{"3.srvtrue", "1.srvtrue", "2.srvtrue", "4.srvfalse"})
	third := sample("3.srv")
	third.Phase = PhaseSuspended
	equal(t, "records", list(t, s), []*Record{sample("2.srv"), third, sample("4.srv")})

	got, err := s.GetAll(t.Context(), []string{"4.srv", "1.srv", "3.srv"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "read", got, []*Record{sample("4.srv"), third})
	if err := s.UpdateAll(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
	if got, err := s.GetAll(t.Context(), nil); got != nil || err != nil {
		t.Errorf("%v, %v of no jobs", got, err)
	}
}

// A damaged record among others is set aside and told of, and the others are written.
func TestUpdateAllMeetsDamage(t *testing.T) {
	dir := t.TempDir()
	put(t, store(t, dir), sample("1.srv"), sample("2.srv"))
	told := 0
	s, err := Open(dir, OnDamage(func(string, error) { told++ }))
	if err != nil {
		t.Fatal(err)
	}
	err = s.transaction(t.Context(), true, func(d *database) error {
		if err := d.store("1.srv", []byte("rubbish")); err != nil {
			return err
		}
		return d.commit()
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.UpdateAll(t.Context(), []string{"1.srv", "2.srv"}, func(id string, rec *Record) (*Record, error) {
		if (rec != nil) != (id == "2.srv") {
			t.Errorf("job %s: record %v", id, rec)
		}
		if rec != nil {
			rec.Phase = PhaseExiting
		}
		return rec, nil
	})
	if err != nil || told != 1 {
		t.Errorf("%v, told of %d", err, told)
	}
	second := sample("2.srv")
	second.Phase = PhaseExiting
	equal(t, "records", list(t, s), []*Record{second})
}
