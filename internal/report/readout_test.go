package report

import (
	"math"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func TestPlotsShowTheirValuesAtATime(t *testing.T) {
	nan := math.NaN()
	c := chart{measure: measure{unit: cpus}, lines: []chartLine{
		{name: "n1", times: []int64{100, 110, 120, 130}, values: hostapi.Column{nan, 1, 2, 3}},
		{name: "n2", times: []int64{120, 130}, values: hostapi.Column{5, nan}},
	}}
	must.Equal(t, "values", []readout{
		{At: "0", Width: "25", Text: "00:01:43, n1 1"}, {At: "25", Width: "25", Text: "00:01:51, n1 2"},
		{At: "50", Width: "25", Text: "00:01:58, n1 2"}, {At: "75", Width: "25", Text: "00:02:06, n1 3"},
	}, c.readouts(time.Unix(100, 0).UTC(), time.Unix(130, 0).UTC()))

	none := chart{measure: measure{unit: cpus}, lines: []chartLine{
		{name: "n1", times: []int64{100, 110}, values: hostapi.Column{nan, nan}},
	}}
	must.Equal(t, "without a value", 0, len(none.readouts(time.Unix(100, 0), time.Unix(110, 0))))
}
