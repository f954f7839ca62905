package host

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/usage"
)

// askLimit is how long the other hosts of live jobs have to tell what was used there. What they do not tell by then is as it was.
const askLimit = 3 * time.Second

// askOthers asks the other hosts of jobs, all at the same time, what has been used there, and notes it in the jobs' records. It needs
// nobody's turn, and leaves timers as they are. of says which hosts are asked about a job.
func (h *Host) askOthers(ctx context.Context, ids []string, of func(*jobstate.Record) []string) error {
	recs, err := h.opt.Store.GetAll(ctx, ids)
	if err != nil {
		return err
	}
	type asked struct {
		run    string
		hosts  []string
		answer map[string]SisterUsage
	}
	told := map[string]*asked{}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var calls sync.WaitGroup
	for _, rec := range recs {
		others := of(rec)
		if len(others) == 0 || rec.Phase == jobstate.PhaseExiting {
			continue
		}
		a := &asked{run: rec.Run, hosts: others}
		told[rec.Job.ID] = a
		calls.Go(func() {
			a.answer = h.usageOn(ctx, rec.Job.ID, others)
			if h.opt.Sisters == nil && h.opt.MoMUsage != nil {
				for host := range a.answer {
					a.answer[host] = SisterUsage{Err: errLater}
				}
			}
			for host, u := range a.answer {
				if u.Ended { // it may be an earlier run's
					a.answer[host] = SisterUsage{Err: errNoLonger}
				}
			}
		})
	}
	calls.Wait()
	return h.opt.Store.UpdateAll(h.detach(ctx), slices.Sorted(maps.Keys(told)), func(id string, rec *jobstate.Record) (*jobstate.Record, error) {
		if a := told[id]; rec != nil && rec.Run == a.run && rec.Phase != jobstate.PhaseExiting { // epilogue has the last word
			if spreads(rec) {
				rec.Sisters = a.hosts
			}
			noteUsage(rec, a.hosts, a.answer)
		}
		return rec, nil
	})
}

// usageOn asks hosts what a job has used there, and leaves out what cannot be taken. Where no host can be asked that is each one's answer: nobody is
// to take a part of the use for all of it.
func (h *Host) usageOn(ctx context.Context, id string, hosts []string) map[string]SisterUsage {
	if h.opt.Sisters == nil {
		told := make(map[string]SisterUsage, len(hosts))
		for _, host := range hosts {
			told[host] = SisterUsage{Err: errNoSisters}
		}
		return told
	}
	told := h.opt.Sisters.Usage(ctx, id, hosts)
	for host, u := range told {
		if err := checkUsage(u.Usage); err != nil {
			told[host] = SisterUsage{Err: err}
		}
	}
	return told
}

// measures returns the hosts that are asked for a report of the job: those that events go to, and of a job that pbs_mom has begun, which
// tells each host itself, all but this one if this is its first.
func (h *Host) measures(rec *jobstate.Record) []string {
	if others := h.others(rec); len(others) > 0 {
		return others
	}
	if rec.Head != "" || rec.MoM != nil || !rec.Job.MotherSuperior {
		return nil
	}
	others, err := h.sistersOf(rec.Job)
	if err != nil {
		return nil
	}
	return others
}

// lastUsage asks the other hosts of a job of pbs_mom's what was used there, while the caller goes on with its epilogue. The function
// that it returns waits for them, and then notes what they told in a record. A host that is through with the job already has its report.
func (h *Host) lastUsage(ctx context.Context, rec *jobstate.Record, e hostapi.Event) (wait func() (note func(*jobstate.Record))) {
	var hosts []string
	if rec != nil && !spreads(rec) && e == hostapi.EventEpilogue {
		hosts = h.measures(rec)
	}
	if len(hosts) == 0 {
		return func() func(*jobstate.Record) { return func(*jobstate.Record) {} }
	}
	done := make(chan map[string]SisterUsage, 1)
	id := rec.Job.ID
	go func() {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		told := h.usageOn(ctx, id, hosts)
		h.fromMoM(rec, hosts, told)
		done <- told
	}()
	return func() func(*jobstate.Record) {
		told := <-done
		return func(rec *jobstate.Record) { noteUsage(rec, hosts, told) }
	}
}

// fromMoM puts pbs_mom's word in for the hosts that did not answer. MoM's error takes the place of
// theirs only if no host can be asked at all.
func (h *Host) fromMoM(rec *jobstate.Record, hosts []string, told map[string]SisterUsage) {
	silent := slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		u, there := told[host]
		return there && u.Err == nil
	})
	if h.opt.MoMUsage == nil || len(silent) == 0 {
		return
	}
	for host, u := range h.opt.MoMUsage(rec, silent) {
		if err := checkUsage(u.Usage); err != nil {
			u = SisterUsage{Err: err}
		}
		if u.Err == nil || h.opt.Sisters == nil {
			told[host] = u
		}
	}
}

// noteUsage folds what other hosts told into the record. One that told nothing keeps its last numbers and is missing until it does.
func noteUsage(rec *jobstate.Record, hosts []string, told map[string]SisterUsage) {
	for _, host := range hosts {
		a, there := told[host]
		switch {
		case !there:
			a.Err = errNoAnswer
			fallthrough
		case a.Err != nil:
			put(&rec.Missing, host, plain(strings.TrimPrefix(a.Err.Error(), host+": ")))
			continue
		case a.Usage != nil:
			put(&rec.Hosts, host, usage.Fold(rec.Hosts[host], a.Usage))
		}
		delete(rec.Missing, host)
	}
}

// otherCPUT returns the cpu time that the job has used on its other hosts, as far as they told; nil when none did.
func otherCPUT(rec *jobstate.Record) *float64 {
	var sum *float64
	for _, host := range rec.Sisters {
		if u := rec.Hosts[host]; u != nil && u.CPUTSeconds != nil {
			if sum == nil {
				sum = new(float64)
			}
			*sum += *u.CPUTSeconds
		}
	}
	return sum
}

// rang has the hook called for jobs whose timers have rung and of which the hook wants the other hosts asked first. Meanwhile nobody waits:
// these jobs' turns are free, and calls for others go on.
func (h *Host) rang(hook string, jobs []string) {
	h.mu.Lock()
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(id string) bool {
		key := [2]string{hook, id}
		asks := h.asking[key]
		put(&h.asking, key, true)
		return asks
	})
	h.mu.Unlock()
	if len(jobs) == 0 {
		return
	}
	h.aside(func() {
		if err := h.askOthers(h.ctx, jobs, h.others); err != nil && h.ctx.Err() == nil {
			h.log.WithField("hook", hook).Errorf("ask other hosts what jobs have used: %v", err)
		}
		h.mu.Lock()
		for _, id := range jobs {
			delete(h.asking, [2]string{hook, id})
		}
		h.mu.Unlock()
		h.batches.add(hook, jobs)
	})
}

// aside runs f beside the caller. Close waits for it as for an event; false when it is too late for that.
func (h *Host) aside(f func()) bool {
	if !h.enter(&h.begun) {
		return false
	}
	go func() { defer h.begun.Done(); f() }()
	return true
}

// asking is an ask under way.
type asking struct {
	done chan struct{}
	err  error // once done is closed
}

// askBeside is askOthers for one job while the caller goes on; the function that it returns waits for it. Callers that come while the job's
// hosts are being asked wait for the same answers: each user may have reports of own jobs made, as often as he likes, and a job may have
// a thousand hosts.
func (h *Host) askBeside(ctx context.Context, id string) (wait func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.reports[id]
	if a == nil {
		a = &asking{done: make(chan struct{})}
		put(&h.reports, id, a)
		go func() {
			a.err = h.askOthers(ctx, []string{id}, h.measures)
			h.mu.Lock()
			delete(h.reports, id)
			h.mu.Unlock()
			close(a.done)
		}()
	}
	return func() error { <-a.done; return a.err }
}
