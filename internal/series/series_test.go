package series

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookhost/hookhost/hostapi"
)

// random returns n points after start, with columns and values left out at random.
func random(r *rand.Rand, start int64, n int) *hostapi.Series {
	s := &hostapi.Series{Columns: map[string]hostapi.Column{}}
	for range n {
		start += 1 + r.Int64N(60)
		s.Times = append(s.Times, start)
	}
	for _, name := range []string{hostapi.ColumnCPU, hostapi.ColumnRSSBytes, hostapi.ColumnIOPressure} {
		if r.IntN(4) == 0 {
			continue
		}
		for range n {
			value := r.Float64() * 100
			if r.IntN(10) == 0 {
				value = math.NaN()
			}
			s.Columns[name] = append(s.Columns[name], value)
		}
	}
	return s
}

func TestAppendedAnswersCountOnceAndStayInBounds(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var kept *hostapi.Series
		start := int64(0)
		for range 20 {
			answer := random(r, start, r.IntN(80))
			once := Append(kept, answer)
			if diff := cmp.Diff(once, Append(once, answer), cmpopts.EquateNaNs()); diff != "" {
				t.Fatalf("seed %d: the same answer twice (-once +twice):\n%s", seed, diff)
			}
			if err := once.Check(); err != nil || len(once.Times) > MostPoints {
				t.Fatalf("seed %d: %d points: %v", seed, len(once.Times), err)
			}
			kept = once
			if n := len(answer.Times); n > 0 {
				start = answer.Times[n-1]
				if last := kept.Times[len(kept.Times)-1]; last != start {
					t.Fatalf("seed %d: the last point is of %d, want %d", seed, last, start)
				}
			}
		}
	}
}

func TestThinningKeepsPeaksOfGaugesAndSumsOfRates(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := &hostapi.Series{Columns: map[string]hostapi.Column{}}
	most, sum := 0.0, 0.0
	for i := range 5000 {
		cpu, rss := r.Float64(), r.Float64()
		s.Times = append(s.Times, int64(i)*30)
		s.Columns[hostapi.ColumnCPU] = append(s.Columns[hostapi.ColumnCPU], cpu)
		s.Columns[hostapi.ColumnRSSBytes] = append(s.Columns[hostapi.ColumnRSSBytes], rss)
		most = max(most, rss)
		if i > 0 {
			sum += cpu * 30
		}
	}
	thinned := Append(nil, s)
	if n := len(thinned.Times); n > MostPoints || n < MostPoints/4 {
		t.Errorf("%d points", n)
	}
	if got := Greatest(thinned.Columns[hostapi.ColumnRSSBytes]); got != most {
		t.Errorf("peak %v, want %v", got, most)
	}
	got := 0.0
	for i := 1; i < len(thinned.Times); i++ {
		got += thinned.Columns[hostapi.ColumnCPU][i] * float64(thinned.Times[i]-thinned.Times[i-1])
	}
	if math.Abs(got-sum)/sum > 0.01 {
		t.Errorf("cpu seconds %v, want %v", got, sum)
	}
}

func TestAppendSharesNothing(t *testing.T) {
	old := &hostapi.Series{Times: []int64{1}, Columns: map[string]hostapi.Column{"cpu": {1}}}
	s := Append(old, nil)
	s.Times[0], s.Columns["cpu"][0] = 9, 9
	if old.Times[0] != 1 || old.Columns["cpu"][0] != 1 {
		t.Error("the old series changed")
	}
	if Append(nil, nil) != nil {
		t.Error("a series of nothing")
	}
}
