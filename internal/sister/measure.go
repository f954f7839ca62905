package sister

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/usage"
)

// askLimit is how long the other hosts of live jobs have to tell what was used there. A host that
// has not told by then keeps its last numbers.
const askLimit = 3 * time.Second

// Measure asks the other hosts of a job what has been used there, and notes it in the job's record.
// Measure needs no turn of the job, and leaves timers as they are.
func (j *Jobs) Measure(ctx context.Context, id string) {
	rec := j.Store.Get(id)
	if rec == nil || rec.Phase == jobstate.PhaseExiting {
		return
	}
	hosts := j.measures(rec)
	if len(hosts) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	told := j.usageOn(limited, id, hosts)
	if j.Others == nil && j.MoMUsage != nil {
		for host := range told {
			told[host] = Usage{Err: errLater}
		}
	}
	for host, u := range told {
		if u.Ended { // it may be an earlier run's
			told[host] = Usage{Err: errNoLonger}
		}
	}
	note := func(now *jobstate.Record) (*jobstate.Record, error) {
		if now != nil && now.Run == rec.Run && now.Phase != jobstate.PhaseExiting { // epilogue has the last word
			noteUsage(now, hosts, told)
		}
		return now, nil
	}
	if err := j.Store.Update(id, note); err != nil {
		j.Log.Error(err)
	}
}

// usageOn asks hosts what a job has used there, and leaves out what is no usage. Each answer says
// so if no host can be asked: a part of the use is not all of it.
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

// measures returns the hosts that are asked for a report of the job: the hosts that events go to.
// For a job of pbs_mom, which tells each host itself, these are all others, if this host is the
// first.
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
	j.host.Note(rec.Job.ID, note)
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
