package host

import (
	"maps"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// alterable are the resources that qalter changes of a running job without an event for it. The
// server tells the mother superior, whose later events have the new value (openpbs
// src/server/req_modify.c). Others belong to execjob_resize.
var alterable = []string{"walltime", "soft_walltime", "min_walltime", "max_walltime", "cput"}

// alters reports whether an event of a job says what the job asks for by now. Attach is asked for
// by users, and resize says what the job is to have if nobody refuses.
func alters(e hostapi.Event) bool { return e != hostapi.EventAttach && e != hostapi.EventResize }

// alter takes over what an event of pbs_mom says of the job's limits of time; false when that is
// nothing new. The map is replaced, not changed: requests that are under way share it.
func alter(rec *jobstate.Record, told *hostapi.Job) bool {
	if rec.MoM != nil || told == nil || len(told.ResourceList) == 0 || !rec.Job.MotherSuperior {
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

// alterAll does so with the jobs of an exechost event's own list.
func (h *Host) alterAll(told map[string]*hostapi.Job) {
	var ids []string
	for _, rec := range h.opt.Store.GetAll(slices.Sorted(maps.Keys(told))) {
		if alter(rec, told[rec.Job.ID]) {
			ids = append(ids, rec.Job.ID)
		}
	}
	h.change(func(rec *jobstate.Record) { alter(rec, told[rec.Job.ID]) }, ids...)
}
