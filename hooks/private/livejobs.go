package main

import (
	"sync"

	"github.com/hookhost/hookhost/hostapi"
)

// liveJobs are the jobs that live on this host. Hook cgroup may be off, so cgroups do not show all.
type liveJobs struct {
	mu     sync.Mutex
	owners map[string]int // uids, by the job's id
	// begun has the jobs that began since the last list of the host. A list may be older than they.
	begun map[string]bool
}

func newLiveJobs() *liveJobs {
	return &liveJobs{owners: map[string]int{}, begun: map[string]bool{}}
}

// add notes that a job begins. Idempotent.
func (l *liveJobs) add(job *hostapi.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owners[job.ID], l.begun[job.ID] = job.Owner.UID, true
}

// remove notes that a job is over. It returns the job's owner.
func (l *liveJobs) remove(id string) (uid int, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	uid, found = l.owners[id]
	delete(l.owners, id)
	delete(l.begun, id)
	return uid, found
}

// replace takes the host's list of live jobs. Jobs that began meanwhile stay.
func (l *liveJobs) replace(list map[string]*hostapi.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	owners := map[string]int{}
	for id := range l.begun {
		owners[id] = l.owners[id]
	}
	for id, job := range list {
		owners[id] = job.Owner.UID
	}
	l.owners, l.begun = owners, map[string]bool{}
}

func (l *liveJobs) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, found := l.owners[id]
	return found
}

// uids returns the owners of live jobs.
func (l *liveJobs) uids() map[int]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	uids := map[int]bool{}
	for _, uid := range l.owners {
		uids[uid] = true
	}
	return uids
}
