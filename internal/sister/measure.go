package sister

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/usage"
)

// askLimit is how long the other hosts of live jobs have to tell what was used there. A host that
// has not told by then keeps its last numbers.
const askLimit = 3 * time.Second

// Measure asks the other hosts of jobs, all at the same time, what has been used there, and notes it
// in the jobs' records. It needs nobody's turn, and leaves timers as they are.
func (j *Jobs) Measure(ctx context.Context, ids []string) error {
	recs, err := j.Store.GetAll(ctx, ids)
	if err != nil {
		return err
	}
	type asked struct {
		run    string
		hosts  []string
		answer map[string]Usage
	}
	told := map[string]*asked{}
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var calls sync.WaitGroup
	for _, rec := range recs {
		others := j.measures(rec)
		if len(others) == 0 || rec.Phase == jobstate.PhaseExiting {
			continue
		}
		a := &asked{run: rec.Run, hosts: others}
		told[rec.Job.ID] = a
		calls.Go(func() {
			a.answer = j.usageOn(limited, rec.Job.ID, others)
			if j.Others == nil && j.MoMUsage != nil {
				for host := range a.answer {
					a.answer[host] = Usage{Err: errLater}
				}
			}
			for host, u := range a.answer {
				if u.Ended { // it may be an earlier run's
					a.answer[host] = Usage{Err: errNoLonger}
				}
			}
		})
	}
	calls.Wait()
	note := func(id string, rec *jobstate.Record) (*jobstate.Record, error) {
		if a := told[id]; rec != nil && rec.Run == a.run && rec.Phase != jobstate.PhaseExiting { // epilogue has the last word
			noteUsage(rec, a.hosts, a.answer)
		}
		return rec, nil
	}
	return j.Store.UpdateAll(context.WithoutCancel(ctx), slices.Sorted(maps.Keys(told)), note)
}

// usageOn asks hosts what a job has used there, and leaves out what is no usage. Where no host can be
// asked, each one's answer says so: a part of the use is not all of it.
func (j *Jobs) usageOn(ctx context.Context, id string, hosts []string) map[string]Usage {
	if j.Others == nil {
		told := make(map[string]Usage, len(hosts))
		for _, host := range hosts {
			told[host] = Usage{Err: errNoSisters}
		}
		return told
	}
	told := j.Others.Usage(ctx, id, hosts)
	for host, u := range told {
		if err := checkUsage(u.Usage); err != nil {
			told[host] = Usage{Err: err}
		}
	}
	return told
}

// measures returns the hosts that are asked for a report of the job: the hosts that events go to. For
// a job of pbs_mom, which tells each host itself, these are all others, if this host is the first.
func (j *Jobs) measures(rec *jobstate.Record) []string {
	if others := j.others(rec); len(others) > 0 {
		return others
	}
	if rec.Head != "" || rec.MoM != nil || !rec.Job.MotherSuperior {
		return nil
	}
	others, err := j.sistersOf(rec.Job)
	if err != nil {
		return nil
	}
	return others
}

// withUsage carries out an event of a job that is not spread. At the epilogue of a job of pbs_mom's
// the other hosts are asked what was used there, at the same time. A host that is through with the
// job already has its report.
func (s Spread) withUsage(ctx context.Context, req *hostapi.Request, rec *jobstate.Record) (*host.Verdict, error) {
	j := s.jobs
	hosts := j.measures(rec)
	if len(hosts) == 0 || req.Event != hostapi.EventEpilogue {
		return s.Next.Handle(ctx, req)
	}
	wait := spawn(func() map[string]Usage {
		limited, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		told := j.usageOn(limited, rec.Job.ID, hosts)
		j.fromMoM(rec, hosts, told)
		return told
	})
	v, err := s.Next.Handle(ctx, req)
	told := wait()
	note := func(rec *jobstate.Record) { noteUsage(rec, hosts, told) }
	if err := j.host.Note(ctx, rec.Job.ID, note); err != nil {
		j.Log.WithField("job", rec.Job.ID).Error(err)
	}
	return v, err
}

// fromMoM puts pbs_mom's word in for the hosts that did not answer. MoM's error takes the place of
// theirs only if no host can be asked at all.
func (j *Jobs) fromMoM(rec *jobstate.Record, hosts []string, told map[string]Usage) {
	silent := slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		u, there := told[host]
		return there && u.Err == nil
	})
	if j.MoMUsage == nil || len(silent) == 0 {
		return
	}
	for host, u := range j.MoMUsage(rec, silent) {
		if err := checkUsage(u.Usage); err != nil {
			u = Usage{Err: err}
		}
		if u.Err == nil || j.Others == nil {
			told[host] = u
		}
	}
}

// noteUsage folds what other hosts told into the record. A host that told nothing keeps its last
// numbers, and is missing until it does.
func noteUsage(rec *jobstate.Record, hosts []string, told map[string]Usage) {
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
