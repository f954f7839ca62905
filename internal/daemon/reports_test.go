package daemon

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/reports"
)

// finishedIn returns the reports below a directory.
func finishedIn(t *testing.T, dir string) *reports.Store {
	bounds := func() reports.Bounds { return reports.Bounds{Age: 24 * time.Hour, Size: 1 << 30} }
	s := reports.Open(dir+"/reports", dir+"/waiting", bounds, func(err error) { t.Error(err) })
	t.Cleanup(s.Close)
	return s
}

func TestDamagedReportsAreLoggedOnceHoweverTheyAreAskedFor(t *testing.T) {
	dir := t.TempDir()
	s := finishedIn(t, dir)
	end := time.Now()
	for _, job := range []string{"1.srv", "2.srv", "3.srv", "4.srv", "5.srv"} {
		must.NoError(t, s.Write(&report.Report{Job: job, End: &end}, nil))
	}
	for _, job := range []string{"2.srv", "4.srv"} {
		files, err := filepath.Glob(dir + "/reports/*/*." + job + ".*")
		must.NoError(t, err)
		must.NoError(t, os.Truncate(files[0], 30))
	}

	var logged strings.Builder
	log := logrus.New()
	log.SetOutput(&logged)
	j := &jobs{reports: s, log: logrus.NewEntry(log)}
	for range 3 {
		for _, limit := range []int{2, 0} { // the newest two come to one damaged file
			err := j.Find(t.Context(), report.Filter{Limit: limit}, func(int) bool { return true },
				func(json.RawMessage) bool { return true })
			if limit == 0 && !errors.Is(err, api.ErrDamaged) {
				t.Errorf("all: %v", err)
			}
		}
	}
	if lines := strings.Count(logged.String(), "\n"); lines > 2 {
		t.Errorf("%d lines:\n%s", lines, logged.String())
	}
}

// A job that is live when it is asked for and has ended when its report is read is listed once. A
// question for jobs that run reads no reports.
func TestListsHaveEachJobOnce(t *testing.T) {
	dir := t.TempDir()
	store, err := jobstate.Open(dir+"/jobs", func(error) {})
	must.NoError(t, err)
	clock, err := jobstate.NewClock("boot")
	must.NoError(t, err)
	began := time.Now().Add(-time.Minute)
	r := &jobstate.Record{Job: &hostapi.Job{ID: "1.srv", RunCount: 1}, Phase: hostapi.PhaseRunning, Begun: began}
	must.NoError(t, store.Update("1.srv", func(*jobstate.Record) (*jobstate.Record, error) { return r, nil }))
	j := &jobs{node: "n1", clock: clock, store: store, siteAdvice: func() []report.Rule { return nil },
		reports: finishedIn(t, dir), log: logrus.NewEntry(logrus.New()),
		present: func(string) (api.Present, error) { return api.Present{}, api.ErrNotFound }}
	for i, start := range []time.Time{began, began.Add(-time.Hour)} {
		end := time.Now().Add(-time.Duration(i) * time.Hour)
		must.NoError(t, j.reports.Write(&report.Report{Job: "1.srv", Start: &start, End: &end,
			PBSJob: &hostapi.Job{ID: "1.srv", RunCount: 1, MotherSuperior: true}}, nil))
	}
	find := func(states string, limit int) (found int, err error) {
		f := report.Filter{States: strings.Split(states, ","), Limit: limit}
		err = j.Find(t.Context(), f, func(int) bool { return true },
			func(json.RawMessage) bool { found++; return true })
		return found, err
	}
	for states, want := range map[string]int{"running": 1, "running,finished": 2, "finished": 2, "running,failed": 2} {
		for _, limit := range []int{0, 20} {
			found, err := find(states, limit)
			must.NoError(t, err)
			must.Equal(t, states, want, found)
		}
	}
	found, err := find("running,finished", 1)
	must.NoError(t, err)
	must.Equal(t, "the newest", 1, found)
	must.NoError(t, os.RemoveAll(dir+"/reports"), os.WriteFile(dir+"/reports", nil, 0o600))
	if _, err := find("running", 0); err != nil {
		t.Errorf("jobs that run, while the reports cannot be read: %v", err)
	}
	if _, err := find("failed", 0); err == nil {
		t.Error("jobs that have failed are found without their reports")
	}
}

// A job that runs has been measured at its begin, and then not for an hour.
func TestListsHaveOfLiveJobsWhatIsReadAtOnce(t *testing.T) {
	store, err := jobstate.Open(t.TempDir(), func(error) {})
	must.NoError(t, err)
	clock, err := jobstate.NewClock("boot")
	must.NoError(t, err)
	anHourAgo := clock.Now()
	anHourAgo.Wall, anHourAgo.Mono = anHourAgo.Wall.Add(-time.Hour), anHourAgo.Mono-time.Hour
	begun := func(id, execVnode string, hosts ...string) {
		r := &jobstate.Record{Job: &hostapi.Job{ID: id, ExecVnode: execVnode}, Phase: hostapi.PhaseRunning,
			Begun: anHourAgo.Wall, Launched: anHourAgo, Hosts: map[string]*hostapi.HostUsage{},
			ResourcesUsed: hostapi.Resources{"cput": "00:00:00", "mem": "0kb", "walltime": "00:00:01"}}
		for _, host := range hosts {
			r.Hosts[host] = &hostapi.HostUsage{NCPUs: 2, CPUTSeconds: new(0.0), MemBytes: new(int64(0)),
				MemLimitBytes: new(int64(400 << 20)), OOMKills: new(int64(0)), ThrottledSeconds: new(9.0),
				Devices: []hostapi.DeviceUsage{{ID: "gpu", Resource: "ngpus", UtilizationPercent: new(0.0)}}}
		}
		must.NoError(t, store.Update(id, func(*jobstate.Record) (*jobstate.Record, error) { return r, nil }))
	}
	begun("1.busy", "(n1:ncpus=2)", "n1")
	begun("2.spread", "(n1:ncpus=2)+(n2:ncpus=2)", "n1", "n2")
	begun("3.ending", "(n1:ncpus=2)", "n1")
	begun("4.idle", "(n1:ncpus=2)", "n1")
	now := map[string]api.Present{
		"1.busy":   {CPUSeconds: new(7200.0), MemBytes: new(int64(100 << 20)), OOMKills: new(int64(1))},
		"2.spread": {CPUSeconds: new(7200.0), MemBytes: new(int64(100 << 20))},
		"4.idle":   {CPUSeconds: new(0.5), MemBytes: new(int64(1 << 20))},
	}
	j := &jobs{node: "n1", clock: clock, store: store, siteAdvice: func() []report.Rule { return nil },
		reports: finishedIn(t, t.TempDir()),
		log:     logrus.NewEntry(logrus.New()), present: func(id string) (api.Present, error) {
			uses, ok := now[id]
			if !ok {
				return uses, api.ErrNotFound
			}
			return uses, nil
		}}
	var reports []*report.Report
	must.NoError(t, j.Find(t.Context(), report.Filter{States: []string{"running"}}, func(int) bool { return true },
		func(text json.RawMessage) bool {
			r, err := report.FromArchive(text)
			must.NoError(t, err)
			reports = append(reports, r)
			return true
		}))
	var table strings.Builder
	columns := "job,state,walltime_seconds,ncpus,cput_seconds,cpu_efficiency,mem_bytes,mem_efficiency,oom_kills," +
		"throttled_seconds,gpu_utilization_percent,notes"
	list := report.List{Sort: "job", Columns: strings.Split(columns, ",")}
	must.NoError(t, list.CSV()(&table, slices.Values(reports)))
	must.Equal(t, "the table", columns+`
1.busy,running,3600,2,7200,1.000,104857600,0.250,1,,,try mem=600mb or more: mem=400mb was too little
2.spread,running,3600,4,,,,,0,,,
3.ending,running,3600,2,,,,,0,,,
4.idle,running,3600,2,0.5,0.000,1048576,0.003,0,,,idle: 0.5 s of cpu time in 01:00:00
`, table.String())
}
