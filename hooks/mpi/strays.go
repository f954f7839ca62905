package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/stray"
)

// The values of mpi.strays in the configuration.
const (
	adoptStrays  = "adopt"
	reportStrays = "report"
	killStrays   = "kill"
	leaveStrays  = "off"
)

// Limits of a scan.
const (
	maxTold   = 20              // processes named in a job's report
	lookAgain = 5 * time.Minute // after this a process is read again, since its user may have changed
	between   = 5 * time.Second // minimum interval for scans besides the periodic
	farthest  = 64              // maximum number of scans between two attempts to hand over a process
)

// strays finds processes of jobs' owners that are outside every job. It remembers processes by pid
// and start time. So if nothing has changed on a node, a scan reads only the list of processes and
// the jobs' lists.
type strays struct {
	action  string
	procfs  *kernfs.FS
	facts   *stray.Reader
	members func(job string) ([]int, error)
	log     *logrus.Entry

	mu    sync.Mutex
	jobs  map[string]stray.Job // from the last complete list and partial ones since
	seen  map[int]*sighting
	forks forkCount
	moved map[int]int // by uid: how many processes were handed over, which affects verdicts about others
	found map[string]int
	told  map[string]int
	// advised has the jobs whose report names the setting that keeps containers in a job.
	advised map[string]bool
	scans   int
	last    time.Time
}

// sighting holds the facts remembered about a process.
type sighting struct {
	start uint64
	uid   int
	until time.Time // when to read it again
	scan  int       // the last scan that saw it

	judged  string // the facts that the verdict depended on; "" without a verdict
	class   stray.Class
	found   bool      // it was reported or counted
	tries   int       // how often it was handed over
	next    int       // the scan that may hand it over again
	doomed  time.Time // when it was chosen to be killed
	refused bool      // its files could not be read, so it is left alone until then
}

func newStrays(action string, facts *stray.Reader, members func(string) ([]int, error), log *logrus.Entry) *strays {
	return &strays{action: action, procfs: facts.Procfs, facts: facts, members: members, log: log,
		jobs: map[string]stray.Job{}, seen: map[int]*sighting{}, moved: map[int]int{}, found: map[string]int{},
		told: map[string]int{}, advised: map[string]bool{}}
}

// scan returns its findings about the listed jobs, or nil. For a partial list it does nothing if
// the last scan was only seconds ago or another one is running.
func (s *strays) scan(ctx context.Context, list map[string]*hostapi.Job,
	partial bool) (map[string]*hostapi.JobUpdate, error) {
	if s.action == leaveStrays {
		return nil, nil
	}
	if partial {
		if !s.mu.TryLock() {
			return nil, nil
		}
	} else {
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if partial && time.Since(s.last) < between {
		return nil, nil
	}
	s.know(list, partial)
	if len(list) == 0 || !slices.ContainsFunc(slices.Collect(maps.Values(s.jobs)),
		func(j stray.Job) bool { return j.UID > 0 }) {
		clear(s.seen)
		return nil, nil
	}
	s.scans++
	defer func() { s.last = time.Now() }()
	sc := &scan{
		strays: s, ctx: ctx, now: time.Now(), partial: partial, list: list, jobs: slices.Collect(maps.Values(s.jobs)),
		updates: map[string]*hostapi.JobUpdate{}, owners: map[int]string{}, sessions: map[sessionOf]bool{},
	}
	return sc.run(ctx)
}

// know adds the jobs of a list. A complete list replaces the known jobs.
func (s *strays) know(list map[string]*hostapi.Job, partial bool) {
	if !partial {
		clear(s.jobs)
		gone := func(id string, _ int) bool { return list[id] == nil }
		maps.DeleteFunc(s.found, gone)
		maps.DeleteFunc(s.told, gone)
		maps.DeleteFunc(s.advised, func(id string, _ bool) bool { return list[id] == nil })
	}
	for id, j := range list {
		s.jobs[id] = stray.Job{ID: id, UID: j.Owner.UID, Session: j.SessionID}
	}
}
