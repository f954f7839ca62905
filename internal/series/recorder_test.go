package series

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookhost/hookhost/hostapi"
)

// Answers are lost now and then, though never two in a row. The host has every point all the same,
// each once.
func TestPointsOfALostAnswerComeWithTheNext(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		recorder := NewRecorder(hostapi.ColumnCPU, hostapi.ColumnRSSBytes)
		var host *hostapi.Series
		want := &hostapi.Series{Columns: map[string]hostapi.Column{}}
		lost := false
		for at := range int64(MostPoints) {
			cpu, rss := r.Float64(), math.NaN()
			if at%3 == 0 {
				rss = r.Float64()
			}
			recorder.Add(at, cpu, rss)
			want.Times = append(want.Times, at)
			want.Columns[hostapi.ColumnCPU] = append(want.Columns[hostapi.ColumnCPU], cpu)
			want.Columns[hostapi.ColumnRSSBytes] = append(want.Columns[hostapi.ColumnRSSBytes], rss)
			if r.IntN(3) > 0 && at < MostPoints-1 {
				continue
			}
			answer := recorder.Answer()
			if err := answer.Check(); err != nil {
				t.Fatal(err)
			}
			if lost = !lost && at < MostPoints-1 && r.IntN(2) == 0; !lost {
				host = Append(host, answer)
			}
		}
		if diff := cmp.Diff(want, host, cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

func TestRecorderThatNobodyAsksStaysInBounds(t *testing.T) {
	recorder := NewRecorder(hostapi.ColumnRSSBytes, hostapi.ColumnCPUPressure)
	for at := range int64(10_000) {
		recorder.Add(at, float64(at), math.NaN())
		if at == 500 {
			recorder.Answer()
		}
	}
	s := recorder.Answer()
	if n := len(s.Times); n > MostPoints || n < MostPoints/4 || s.Times[n-1] != 9999 || s.Check() != nil {
		t.Errorf("%d points, %v", n, s.Check())
	}
	if _, told := s.Columns[hostapi.ColumnCPUPressure]; told {
		t.Error("a column without a value is there")
	}
}

func TestPointLeavesNoGarbage(t *testing.T) {
	recorder := NewRecorder(hostapi.ColumnCPU, hostapi.ColumnRSSBytes)
	at := int64(0)
	add := func() { at++; recorder.Add(at, 1, 2) }
	for range MostPoints - 1 {
		add()
	}
	recorder.Answer()
	recorder.Answer()
	if n := testing.AllocsPerRun(MostPoints/2, add); n > 0 {
		t.Errorf("%v allocations a point", n)
	}
}

func TestJobsHavePointsAtTheSameMoments(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 7, 0, time.UTC)
	for _, c := range []struct{ age, pause, slack time.Duration }{
		{0, 23 * time.Second, 3 * time.Second},
		{3*time.Hour - time.Second, 23 * time.Second, 3 * time.Second},
		{3 * time.Hour, 53 * time.Second, 6 * time.Second},
		{24 * time.Hour, 7*time.Minute + 53*time.Second, 48 * time.Second},
	} {
		pause, slack := Pause(30*time.Second, c.age, now)
		if pause != c.pause || slack != c.slack {
			t.Errorf("after %v: %v, %v; want %v, %v", c.age, pause, slack, c.pause, c.slack)
		}
	}
}

// A series that runs for days has a few hundred points, whatever the host merges.
func TestLongJobHasAFewHundredPoints(t *testing.T) {
	points := 0
	const length = 10 * 24 * time.Hour
	start := time.Unix(1_800_000_000, 0)
	for now := start; now.Sub(start) < length; points++ {
		pause, slack := Pause(30*time.Second, now.Sub(start), now)
		now = now.Add(pause + slack)
	}
	if points < MostPoints || points > 5*MostPoints {
		t.Errorf("%d points in %v", points, length)
	}
}
