package host

import (
	"sync"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// keepFor bounds how long the host goes by what a hook said, from the call on. What changes without an event, such as a filter that
// somebody takes away, is seen by the next attach after it. A thousand ranks that start at once need a few seconds.
const keepFor = 10 * time.Second

// kept holds the answers of one hook to execjob_attach that hold for further processes of the job (hostapi.Outcome.Keep), by job: in
// memory alone. An answer ends with the instance that gave it, with forget, and with time. Its zero value keeps nothing.
type kept struct {
	limit time.Duration

	mu      sync.Mutex
	era     uint64 // counts what ends answers: one that was asked for before and comes after is not kept
	answers map[string]keptAnswer
}

type keptAnswer struct {
	out   *hostapi.Outcome
	from  *instance
	until time.Time
}

// answer returns the instance's answer for the job; nil when there is none that holds now. The hook has to be asked then, and what it
// says may be kept if it is of the era.
func (k *kept) answer(job string, from *instance, now time.Time) (out *hostapi.Outcome, era uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a, there := k.answers[job]
	if !there || a.from != from || !now.Before(a.until) {
		return nil, k.era
	}
	out = new(*a.out) // SetEnv is shared: nobody writes to a hook's
	return out, k.era
}

// keep keeps the answer to a call that began at asked, and drops those that are over: of jobs that have ended nothing stays for long.
func (k *kept) keep(job string, from *instance, out *hostapi.Outcome, era uint64, asked time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.era != era {
		return
	}
	for id, a := range k.answers {
		if a.from != from || !asked.Before(a.until) {
			delete(k.answers, id)
		}
	}
	put(&k.answers, job, keptAnswer{new(*out), from, asked.Add(k.limit)})
}

// forget ends the answer for the job.
func (k *kept) forget(job string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.era++
	delete(k.answers, job)
}

// forgetAll ends every answer.
func (k *kept) forgetAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.era++
	clear(k.answers)
}

// endKept ends what hooks have said of further processes of a job.
func (h *Host) endKept(job string) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, p := range h.plugins {
		p.kept.forget(job)
	}
}
