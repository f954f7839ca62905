package series

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookhost/hookhost/hostapi"
)

func TestSpreadIsTheMeanOrTheGreatestOfEachPart(t *testing.T) {
	nan := math.NaN()
	s := &hostapi.Series{Times: []int64{10, 20, 30, 60}, Columns: map[string]hostapi.Column{
		hostapi.ColumnCPU: {1, 3, nan, 2}, hostapi.ColumnRSSBytes: {1, 3, nan, 2}, "pids": {5}}}
	for _, tt := range []struct {
		column   string
		from, to int64
		want     []float64
	}{
		{hostapi.ColumnCPU, 0, 60, []float64{1, 3, nan, 2, 2, 2}},
		{hostapi.ColumnCPU, 0, 60, []float64{2, 2, 2}},
		{hostapi.ColumnRSSBytes, 0, 60, []float64{3, 2, 2}},
		{hostapi.ColumnCPU, 15, 25, []float64{3, nan}},
		{hostapi.ColumnCPU, -20, 80, []float64{nan, 2, 2, 2, nan}},
		{hostapi.ColumnCPU, 60, 60, []float64{nan}},
		{"pids", 0, 60, []float64{nan}},
		{"none", 0, 60, []float64{nan}},
	} {
		got := Spread(s, tt.column, tt.from, tt.to, len(tt.want))
		if diff := cmp.Diff(tt.want, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s of %d to %d: %s", tt.column, tt.from, tt.to, diff)
		}
	}
	if got := Spread(nil, hostapi.ColumnCPU, 0, 10, 2); len(got) != 2 || !math.IsNaN(got[0]) {
		t.Errorf("of no series: %v", got)
	}
}
