package jobstate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)

func TestTimeBetweenMomentsIsByTheMonotonicClockWithinABoot(t *testing.T) {
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

func TestClockIgnoresAWallClockThatSomebodySets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := NewClock("b")
		must.NoError(t, err)
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

func TestElapsedLeavesOutSuspensions(t *testing.T) {
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
		{"is suspended", Record{Launched: at(0), Suspended: time.Second, SuspendedAt: at(5 * time.Second)},
			4 * time.Second, false},
		{"ended", Record{Launched: at(0), Suspended: time.Second, Ended: at(7 * time.Second)}, 6 * time.Second, false},
		{"wall clock set back", Record{Launched: Moment{Wall: noon.Add(24 * time.Hour), Boot: "b", Mono: time.Hour}},
			10 * time.Second, true},
		{"of another boot", Record{Launched: Moment{Wall: noon.Add(-time.Minute), Boot: "c", Mono: 99 * time.Hour}},
			70 * time.Second, true},
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
