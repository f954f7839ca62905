package jobstate

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func points(times ...int64) *hostapi.Series {
	s := &hostapi.Series{Times: times, Columns: map[string]hostapi.Column{}}
	for _, name := range []string{"cpu", "rss_bytes", "cache_bytes", "pids", "read_bytes_per_second",
		"write_bytes_per_second", "cpu_pressure", "memory_pressure", "io_pressure"} {
		for _, at := range times {
			s.Columns[name] = append(s.Columns[name], float64(at)*1.5)
		}
	}
	return s
}

// addPoints is what an answer with points does to a record.
func addPoints(t testing.TB, s *Store, id string, times ...int64) {
	t.Helper()
	must.NoError(t, s.Update(id, func(rec *Record) (*Record, error) {
		rec.Hosts["h"].Series = points(times...)
		rec.Hosts["h"].Devices = []hostapi.DeviceUsage{{ID: "gpu0", Series: points(times...)}}
		return rec, nil
	}))
}

func TestSeriesIsBesideTheRecordAndOutlivesARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	s := open(t, dir)
	put(t, s, sample("10.srv"), sample("11.srv"))
	addPoints(t, s, "10.srv", 1, 2)
	before, err := os.ReadFile(s.path("10.srv"))
	must.NoError(t, err)
	addPoints(t, s, "10.srv", 2, 3)
	addPoints(t, s, "10.srv", 2, 3)
	after, err := os.ReadFile(s.path("10.srv"))
	must.NoError(t, err)
	if !bytes.Equal(before, after) {
		t.Errorf("the record changed with its series: %s", after)
	}
	for _, s := range []*Store{s, open(t, dir)} {
		hosts := s.Hosts(s.Get("10.srv"))
		equal(t, "series", hosts["h"].Series, points(1, 2, 3))
		equal(t, "series of a device", hosts["h"].Devices[0].Series, points(1, 2, 3))
		if s.Hosts(s.Get("11.srv"))["h"].Series != nil {
			t.Error("a job without points has a series")
		}
	}
	must.NoError(t, s.Update("10.srv", func(*Record) (*Record, error) { return nil, nil }))
	if _, err := os.Stat(s.seriesPath("10.srv")); !os.IsNotExist(err) {
		t.Errorf("the series of a job that is over: %v", err)
	}
}

// The head and each sister go by the hosts of the job, whether they have told something yet or not.
func TestJobOnManyHostsHasFewerPointsOnEach(t *testing.T) {
	times := make([]int64, 300)
	for i := range times {
		times[i] = int64(i) * 30
	}
	s := open(t, filepath.Join(t.TempDir(), "jobs"))
	for hosts, most := range map[int]int{1: 300, 60: 300, 1000: 24} {
		id := fmt.Sprintf("%d.srv", hosts)
		rec := sample(id)
		vnodes := make([]string, hosts)
		for i := range vnodes {
			vnodes[i] = fmt.Sprintf("(n%d:ncpus=1)", i)
		}
		rec.Job.ExecHost2, rec.Job.ExecVnode = "", strings.Join(vnodes, "+")
		put(t, s, rec)
		addPoints(t, s, id, times...)
		h := s.Hosts(s.Get(id))["h"]
		for _, got := range []*hostapi.Series{h.Series, h.Devices[0].Series} {
			if n := len(got.Times); n > most || n < most/4 || got.Times[n-1] != times[len(times)-1] {
				t.Errorf("a job on %d hosts: %d points, want %d at most", hosts, n, most)
			}
		}
	}
}

func TestRecordsOwnPointsAreInItsHosts(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "jobs"))
	put(t, s, sample("10.srv"))
	addPoints(t, s, "10.srv", 1, 2)
	rec := s.Get("10.srv")
	rec.Hosts["h"].Series = points(3)
	equal(t, "series", s.Hosts(rec)["h"].Series, points(1, 2, 3))
	equal(t, "series of the store", s.Hosts(s.Get("10.srv"))["h"].Series, points(1, 2))
	equal(t, "the record's own", rec.Hosts["h"].Series, points(3))
}

func TestBrokenSeriesCostsOnlyItself(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	s := open(t, dir)
	put(t, s, sample("10.srv"))
	for _, text := range []string{`{"h":{"host":{"times":[1,2`, `{"h":{"host":{"times":[2,1],"columns":{}}}}`} {
		must.NoError(t, os.WriteFile(s.seriesPath("10.srv"), []byte(text), 0o600))
		told := 0
		again, err := Open(dir, func(error) { told++ })
		must.NoError(t, err)
		rec := again.Get("10.srv")
		if rec == nil || again.Hosts(rec)["h"].Series != nil || told != 1 {
			t.Errorf("%s: record %v, %d errors", text, rec, told)
		}
	}
}

func TestSeriesWithoutARecordIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	s := open(t, dir)
	must.NoError(t, os.WriteFile(s.seriesPath("10.srv"), []byte(`{}`), 0o600))
	open(t, dir)
	if _, err := os.Stat(s.seriesPath("10.srv")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// BenchmarkUpdateOfAJobWithSeries is an event of a job that has run for long, without new points
// and with one.
func BenchmarkUpdateOfAJobWithSeries(b *testing.B) {
	for _, count := range []int{0, 360} {
		for _, grows := range []bool{false, true} {
			b.Run(fmt.Sprintf("points=%d/new=%v", count, grows), func(b *testing.B) {
				s := open(b, filepath.Join(b.TempDir(), "jobs"))
				put(b, s, sample("10.srv"))
				times := make([]int64, count)
				for i := range times {
					times[i] = int64(i) * 30
				}
				addPoints(b, s, "10.srv", times...)
				n := int64(count) * 30
				for b.Loop() {
					must.NoError(b, s.Update("10.srv", func(rec *Record) (*Record, error) {
						n++
						rec.Notes = []string{fmt.Sprint(n)}
						if grows {
							rec.Hosts["h"].Series = points(n)
						}
						return rec, nil
					}))
				}
			})
		}
	}
}
