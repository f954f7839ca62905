package host

import (
	"context"
	"maps"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// jobOf returns the job of an event for the hooks: as it was at begin, with the changes that later
// events may make. Attach comes from users and cannot change anything.
func jobOf(rec *jobstate.Record, req *hostapi.Request, now jobstate.Moment) *hostapi.Job {
	job := *rec.Job
	job.ResourcesUsed = maps.Clone(rec.ResourcesUsed)
	job.Phase, job.Elapsed = rec.Phase, rec.Elapsed(now)
	told := req.Job
	if req.Event == hostapi.EventAttach || told == nil {
		return &job
	}
	if told.SessionID != 0 {
		job.SessionID = told.SessionID
	}
	if told.ExitStatus != nil {
		job.ExitStatus = told.ExitStatus
	}
	if told.KillDelay != nil {
		job.KillDelay = told.KillDelay
	}
	if req.Event == hostapi.EventResize {
		for _, s := range []struct{ to, from *string }{
			{&job.ExecVnode, &told.ExecVnode}, {&job.ExecHost2, &told.ExecHost2}, {&job.Schedselect, &told.Schedselect},
		} {
			if *s.from != "" {
				*s.to = *s.from
			}
		}
		if told.ResourceList != nil {
			job.ResourceList = told.ResourceList
		}
	}
	return &job
}

// jobInList returns the job's entry in a JobList for the hook.
func jobInList(rec *jobstate.Record, hook string, now jobstate.Moment) *hostapi.Job {
	job := *rec.Job
	job.ResourcesUsed, job.ExitStatus, job.State = rec.ResourcesUsed, rec.ExitStatus, rec.HookState[hook]
	job.Phase, job.Elapsed = rec.Phase, rec.Elapsed(now)
	return &job
}

// alterable are the resources of a running job that qalter changes without an event. The server
// tells the mother superior, whose later events carry the new value (openpbs
// src/server/req_modify.c). Other resources belong to execjob_resize.
var alterable = []string{"walltime", "soft_walltime", "min_walltime", "max_walltime", "cput"}

// alters reports whether an event carries the job's current request. Attach comes from users, and
// resize carries the request that applies only if no hook refuses.
func alters(e hostapi.Event) bool { return e != hostapi.EventAttach && e != hostapi.EventResize }

// alter records the time limits in an event of pbs_mom; it returns false if nothing is new. The map
// is replaced, not changed, because requests under way share it.
func alter(rec *jobstate.Record, told *hostapi.Job) bool {
	if rec.Runner != nil || told == nil || len(told.ResourceList) == 0 || !rec.Job.MotherSuperior {
		return false
	}
	list := maps.Clone(rec.Job.ResourceList)
	for _, name := range alterable {
		if value, ok := told.ResourceList[name]; ok {
			put(&list, name, value)
		} else {
			delete(list, name)
		}
	}
	if maps.Equal(list, rec.Job.ResourceList) {
		return false
	}
	job := *rec.Job
	job.ResourceList = list
	rec.Job = &job
	return true
}

// alterAll records the time limits of each job in the list of an exechost event (alter).
func (h *Host) alterAll(_ context.Context, e *event) (*Verdict, error) {
	told := e.req.JobList
	var ids []string
	for _, rec := range h.opt.Store.GetAll(slices.Sorted(maps.Keys(told))) {
		if alter(rec, told[rec.Job.ID]) {
			ids = append(ids, rec.Job.ID)
		}
	}
	h.change(func(rec *jobstate.Record) { alter(rec, told[rec.Job.ID]) }, ids...)
	return nil, nil
}
