package jobstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/series"
)

const seriesSuffix = ".series" // of a job's series, beside its record

// Hosts returns the usage of a record's hosts with their series. When the store gets a record, it
// moves the record's points to the job's series. A series is long, and each event reads and writes
// the record. Points in rec itself, which were not given to the store yet, are appended.
func (s *Store) Hosts(rec *Record) map[string]*hostapi.HostUsage {
	return s.Series(rec).Join(rec.Hosts)
}

// Series returns the series of a record's job, including points in rec itself. The caller must not
// change them.
func (s *Store) Series(rec *Record) series.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.withPoints(rec)
}

// withPoints implements Series. The caller holds mu.
func (s *Store) withPoints(rec *Record) series.Job {
	had := s.series[rec.Job.ID]
	if !series.In(rec.Hosts) {
		return had
	}
	return had.Append(rec.Hosts, shareOf(rec))
}

// shareOf is how many points each host of a record's job may have.
func shareOf(rec *Record) int {
	hosts, err := pbs.Hosts(rec.Job.ExecVnode, rec.Job.ExecHost2)
	if err != nil {
		hosts = nil // then it is a job of this host
	}
	return series.Share(max(len(hosts), len(rec.Hosts)))
}

// moveSeries moves the points of a changed record to the job's series, and reports whether there
// were any. The caller holds mu.
func (s *Store) moveSeries(id string, rec *Record) (points bool) {
	if !series.In(rec.Hosts) {
		return false
	}
	s.series[id] = s.withPoints(rec)
	rec.Hosts = series.Without(rec.Hosts)
	return true
}

// saveSeries writes the file of a job's series, or removes it if the job has none. A file that
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

// loadSeries reads the file of a job's series. A damaged file affects only this series.
func (s *Store) loadSeries(id string) {
	path := s.seriesPath(id)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var of series.Job
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	if err == nil {
		err = of.Check()
	}
	if err != nil {
		s.failed(fmt.Errorf("series %s: left out: %w", path, err))
		return
	}
	s.series[id] = of
}

func (s *Store) seriesPath(id string) string { return filepath.Join(s.dir, id+seriesSuffix) }
