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

// Bounds on what a scan does.
const (
	maxTold   = 20              // processes that a job's report names
	lookAgain = 5 * time.Minute // after which a process is read again: it may have become another user's
	between   = 5 * time.Second // scans that are made beside the periodic
	farthest  = 64              // scans, at most, until what was handed over in vain is handed over again
)

// strays finds processes of jobs' owners that are outside of every job. Each process that was seen
// is known by pid and start time. So a scan of a node on which nothing has changed reads the list
// of processes and those of jobs only.
type strays struct {
	action  string
	procfs  *kernfs.FS
	facts   *stray.Reader
	members func(job string) ([]int, error)
	log     *logrus.Entry

	mu    sync.Mutex
	jobs  map[string]stray.Job // of the last complete list, and of those after it
	seen  map[int]*sighting
	forks forkCount
	moved map[int]int // by uid: how often processes were handed over, which changes what others are
	found map[string]int
	told  map[string]int
	scans int
	last  time.Time
}

// sighting is what is remembered of a process.
type sighting struct {
	start uint64
	uid   int
	until time.Time // it is read again then
	scan  int       // that has seen it last

	judged  string // what the verdict depended on; "" where there is none
	class   stray.Class
	found   bool      // it was told or counted
	tries   int       // how often it was handed over
	next    int       // the scan that may do so again
	doomed  time.Time // since when it is to be killed
	refused bool      // its files cannot be read: it is left alone until then
}

func newStrays(action string, facts *stray.Reader, members func(string) ([]int, error), log *logrus.Entry) *strays {
	return &strays{action: action, procfs: facts.Procfs, facts: facts, members: members, log: log,
		jobs: map[string]stray.Job{}, seen: map[int]*sighting{}, moved: map[int]int{}, found: map[string]int{},
		told: map[string]int{}}
}

// scan returns what it found out about the listed jobs, nil where nothing. A list that is not
// complete (partial) is scanned for only if the last scan is some seconds ago, and none is going
// on.
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

// know takes over the jobs of a list.
func (s *strays) know(list map[string]*hostapi.Job, partial bool) {
	if !partial {
		clear(s.jobs)
		gone := func(id string, _ int) bool { return list[id] == nil }
		maps.DeleteFunc(s.found, gone)
		maps.DeleteFunc(s.told, gone)
	}
	for id, j := range list {
		s.jobs[id] = stray.Job{ID: id, UID: j.Owner.UID, Session: j.SessionID}
	}
}
