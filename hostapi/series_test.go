package hostapi_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func TestColumnInJSONHasFourDigitsAndNull(t *testing.T) {
	column := hostapi.Column{0, 0.123456, math.NaN(), 1234567890, math.Inf(1)}
	text, err := json.Marshal(column)
	must.NoError(t, err)
	must.Equal(t, "JSON", "[0,0.1235,null,1.235e+09,null]", string(text))
	var back hostapi.Column
	must.NoError(t, json.Unmarshal(text, &back))
	if len(back) != 5 || back[1] != 0.1235 || !math.IsNaN(back[2]) || back[3] != 1.235e9 {
		t.Errorf("read back as %v", back)
	}
}

func TestSeriesOutOfBoundsIsRefused(t *testing.T) {
	many := map[string]hostapi.Column{}
	for i := range hostapi.MaxColumns + 1 {
		many[strings.Repeat("x", i+1)] = hostapi.Column{}
	}
	long := make([]int64, hostapi.MaxPoints+1)
	for i := range long {
		long[i] = int64(i)
	}
	for name, s := range map[string]*hostapi.Series{
		"not after":    {Times: []int64{2, 2}},
		"negative":     {Times: []int64{-1}},
		"more points":  {Times: long},
		"more columns": {Columns: many},
		"short column": {Times: []int64{1, 2}, Columns: map[string]hostapi.Column{"cpu": {1}}},
		"odd name":     {Columns: map[string]hostapi.Column{"\x1b[2J": {}}},
		"no name":      {Columns: map[string]hostapi.Column{"": {}}},
	} {
		inUsage := hostapi.Outcome{Usage: &hostapi.HostUsage{Series: s}}
		ofDevice := hostapi.JobUpdate{Usage: &hostapi.HostUsage{Devices: []hostapi.DeviceUsage{{Series: s}}}}
		inJobs := hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{"1.s": &ofDevice}}
		if inUsage.Check(hostapi.EventEnd) == nil || inJobs.Check(hostapi.EventPeriodic) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	good := hostapi.Series{Times: []int64{1, 2}, Columns: map[string]hostapi.Column{"cpu": {1, 2}}}
	must.NoError(t, good.Check())
}
