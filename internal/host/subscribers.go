package host

import "sync"

// subscribers are those who wait for news of jobs. The zero value has none.
type subscribers struct {
	mu    sync.Mutex
	byJob map[string]map[chan struct{}]bool
}

// subscribe returns a channel that gets a token when there may be news of the job, until cancel.
func (s *subscribers) subscribe(job string) (news chan struct{}, cancel func()) {
	news = make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byJob[job] == nil {
		put(&s.byJob, job, map[chan struct{}]bool{})
	}
	s.byJob[job][news] = true
	return news, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.byJob[job], news)
		if len(s.byJob[job]) == 0 {
			delete(s.byJob, job)
		}
	}
}

// notify wakes those who wait for news of the jobs.
func (s *subscribers) notify(jobs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, job := range jobs {
		for news := range s.byJob[job] {
			select {
			case news <- struct{}{}:
			default:
			}
		}
	}
}
