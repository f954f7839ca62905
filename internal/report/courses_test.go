package report

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

// course returns a series of an hour. of returns each column at a part of the time, 0 to 1.
func course(columns map[string]func(at float64) float64) *hostapi.Series {
	const points = 60
	s := &hostapi.Series{Columns: map[string]hostapi.Column{}}
	for i := range points {
		at := float64(i+1) / points
		s.Times = append(s.Times, begun.Unix()+int64(at*3600))
		for name, of := range columns {
			s.Columns[name] = append(s.Columns[name], of(at))
		}
	}
	return s
}

// ripple is what varies in any measurement, between -1 and 1.
func ripple(at, seed float64) float64 {
	return (math.Sin(at*97+seed) + math.Sin(at*233+2*seed) + math.Sin(at*641+3*seed)) / 3
}

func level(v, part float64) func(float64) float64 {
	return func(at float64) float64 { return v * (1 + part*ripple(at, v)) }
}

const gib = 1 << 30

// courses are the series of the jobs in cases, by host.
var courses = map[string]map[string]map[string]func(float64) float64{
	"steady": {"n1": {
		hostapi.ColumnCPU:         level(7.75, 0.03),
		hostapi.ColumnRSSBytes:    func(at float64) float64 { return 12.8 * gib * min(1, at*20) },
		hostapi.ColumnCacheBytes:  level(1.1*gib, 0.05),
		hostapi.ColumnPids:        level(33, 0),
		hostapi.ColumnReadBytes:   func(at float64) float64 { return 210e6 * max(0, 1-at*14) },
		hostapi.ColumnWriteBytes:  func(at float64) float64 { return 85e6 * max(0, math.Sin(at*50)-0.9) * 10 },
		hostapi.ColumnCPUPressure: level(0.002, 0.5), hostapi.ColumnIOPressure: level(0.001, 0.5),
	}},
	"leaking": {"n1": {
		hostapi.ColumnCPU:            level(5.8, 0.12),
		hostapi.ColumnRSSBytes:       func(at float64) float64 { return 16 * gib * min(1, 0.06+0.94*at) },
		hostapi.ColumnCacheBytes:     func(at float64) float64 { return 3 * gib * max(0, 1-at*1.02) },
		hostapi.ColumnPids:           level(12, 0),
		hostapi.ColumnReadBytes:      func(at float64) float64 { return 3e6 + 160e6*max(0, at-0.9)*10 },
		hostapi.ColumnWriteBytes:     level(1.5e6, 0.5),
		hostapi.ColumnMemoryPressure: func(at float64) float64 { return max(0, at-0.9) * 2.5 },
		hostapi.ColumnIOPressure:     func(at float64) float64 { return max(0, at-0.85) * 3 },
		hostapi.ColumnCPUPressure:    level(0.01, 0.4),
	}},
	"bursty": {"n1": {
		hostapi.ColumnCPU: func(at float64) float64 {
			if math.Mod(at*9, 1) < 0.31 {
				return 7.9 + 0.1*ripple(at, 5)
			}
			return 0.2 + 0.1*ripple(at, 6)
		},
		hostapi.ColumnRSSBytes: func(at float64) float64 {
			return gib * (2.5 + 6.4*max(0, 1-2*math.Mod(at*9, 1)))
		},
		hostapi.ColumnCacheBytes: func(at float64) float64 { return min(6.9, 1+8*at) * gib },
		hostapi.ColumnPids: func(at float64) float64 {
			if math.Mod(at*9, 1) < 0.31 {
				return 41
			}
			return 9
		},
		hostapi.ColumnReadBytes: func(at float64) float64 {
			return 320e6 * max(0, math.Mod(at*9, 1)-0.5) * (1 + 0.3*ripple(at, 8))
		},
		hostapi.ColumnWriteBytes:  level(12e6, 0.6),
		hostapi.ColumnCPUPressure: func(at float64) float64 { return 0.2 + 0.15*ripple(at, 4) },
		hostapi.ColumnIOPressure:  func(at float64) float64 { return 0.7 * max(0, math.Mod(at*9, 1)-0.5) * 2 },
	}},
	"imbalanced": {
		"n1": {hostapi.ColumnCPU: level(7.75, 0.02), hostapi.ColumnRSSBytes: level(11.9*gib, 0.01),
			hostapi.ColumnPids: level(17, 0)},
		"n2": {hostapi.ColumnCPU: func(at float64) float64 { return 3.9 + 1.8*math.Sin(at*60) + 0.2*ripple(at, 2) },
			hostapi.ColumnRSSBytes: level(10.8*gib, 0.015), hostapi.ColumnPids: level(17, 0)},
		"n4": {hostapi.ColumnCPU: func(at float64) float64 { return 2.5 + 2.2*math.Sin(at*60+0.6) + 0.2*ripple(at, 3) },
			hostapi.ColumnRSSBytes: func(at float64) float64 {
				if at > 0.55 && at < 0.6 {
					return math.NaN() // the host did not answer
				}
				return 9 * gib * (1 + 0.2*at)
			}, hostapi.ColumnPids: level(17, 0)},
	},
	"idle": {"n1": {hostapi.ColumnCPU: level(0.0001, 0), hostapi.ColumnRSSBytes: level(6<<20, 0),
		hostapi.ColumnPids: level(1, 0)}},
}

// withCourses gives the hosts and GPUs of the cases their series.
func withCourses(cases map[string]*jobstate.Record) map[string]*jobstate.Record {
	for name, hosts := range courses {
		for host, columns := range hosts {
			h := cases[name].Hosts[host]
			h.Series = course(columns)
			for i := range h.Devices {
				mean, peak := *h.Devices[i].UtilizationPercent, float64(*h.Devices[i].MemPeakBytes)
				h.Devices[i].Series = course(map[string]func(float64) float64{
					hostapi.ColumnUtilizationPercent: level(mean, 0.09),
					hostapi.ColumnDeviceMemBytes:     func(at float64) float64 { return min(1, at*15) * peak },
					hostapi.ColumnPowerWatts:         level(300+float64(i)*12, 0.06),
				})
			}
		}
	}
	return cases
}

// charted returns the report of a case, with its series, as from its file.
func charted(t *testing.T, name string) *Report {
	t.Helper()
	archive, err := os.ReadFile(filepath.Join("testdata", "cases", name+".archive.json"))
	must.NoError(t, err)
	r, err := FromArchive(archive)
	must.NoError(t, err)
	return r
}
