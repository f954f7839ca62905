package jobstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/series"
)

const seriesSuffix = ".series" // of a job's series, beside its record

// hostSeries are the series of one host of a job.
type hostSeries struct {
	Host    *hostapi.Series            `json:"host,omitempty"`
	Devices map[string]*hostapi.Series `json:"devices,omitempty"` // by DeviceUsage.ID
}

// Hosts returns the usage of a record's hosts with their series. A record itself has none: a series
// is long, and each event reads and writes the record.
func (s *Store) Hosts(rec *Record) map[string]*hostapi.HostUsage {
	s.mu.Lock()
	defer s.mu.Unlock()
	hosts := maps.Clone(rec.Hosts)
	for name, of := range s.series[rec.Job.ID] {
		if hosts[name] == nil {
			continue
		}
		u := *hosts[name]
		u.Series, u.Devices = series.Append(nil, of.Host), slices.Clone(u.Devices)
		for i, d := range u.Devices {
			u.Devices[i].Series = series.Append(nil, of.Devices[d.ID])
		}
		hosts[name] = &u
	}
	return hosts
}

// moveSeries moves the points of a changed record to the job's series, and reports whether there
// were any. The caller holds mu.
func (s *Store) moveSeries(id string, rec *Record) (points bool) {
	for name, u := range rec.Hosts {
		if u == nil {
			continue
		}
		of := s.series[id][name]
		if u.Series != nil {
			of.Host, u.Series, points = series.Append(of.Host, u.Series), nil, true
		}
		for i, d := range u.Devices {
			if d.Series == nil {
				continue
			}
			if of.Devices == nil {
				of.Devices = map[string]*hostapi.Series{}
			}
			of.Devices[d.ID], points = series.Append(of.Devices[d.ID], d.Series), true
			u.Devices[i].Series = nil
		}
		if of.Host == nil && of.Devices == nil {
			continue
		}
		if s.series[id] == nil {
			s.series[id] = map[string]hostSeries{}
		}
		s.series[id][name] = of
	}
	return points
}

// saveSeries writes the file of a job's series, and removes it when the job has none. A file that
// cannot be written now is written with the next points. The caller holds mu.
func (s *Store) saveSeries(id string) {
	var text []byte
	var err error
	if of := s.series[id]; of != nil {
		text, err = json.Marshal(of)
	}
	if err == nil {
		err = s.replace(s.seriesPath(id), text)
	}
	if err != nil && !s.seriesFailed {
		s.failed(fmt.Errorf("series of job %s: not saved: %w", id, err))
	}
	s.seriesFailed = err != nil
}

// loadSeries reads the file of a job's series. A file that is no series costs only itself.
func (s *Store) loadSeries(id string) {
	path := s.seriesPath(id)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var of map[string]hostSeries
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	for _, host := range of {
		err = errors.Join(err, host.check())
	}
	if err != nil {
		s.failed(fmt.Errorf("series %s: left out: %w", path, err))
		return
	}
	s.series[id] = of
}

func (h hostSeries) check() error {
	errs := []error{h.Host.Check()}
	for _, d := range h.Devices {
		errs = append(errs, d.Check())
	}
	return errors.Join(errs...)
}

func (s *Store) seriesPath(id string) string { return filepath.Join(s.dir, id+seriesSuffix) }
