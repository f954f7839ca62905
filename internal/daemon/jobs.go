package daemon

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/reports"
)

// jobs answers questions about this host's jobs, live and finished.
type jobs struct {
	node    string
	state   string // directory of the last job number
	clock   jobstate.Clock
	store   *jobstate.Store
	reports *reports.Store
	tree    *cgroup.Tree
	host    *host.Host
	log     *logrus.Entry
	// present reads the current usage of a job.
	present func(id string) (api.Present, error)
	// siteAdvice returns the site's advice in force.
	siteAdvice func() []report.Rule
	// started is closed when hooks have started for the first time, or their time to do so is over.
	started chan struct{}

	numbers sync.Mutex // protects jobstate.NextNumber
	damaged sync.Map   // names of damaged reports that were logged
}

// Jobs returns the jobs that live here.
func (j *jobs) Jobs(ctx context.Context) ([]api.Job, error) {
	j.awaitLost(ctx)
	records := j.store.List()
	list, now := make([]api.Job, 0, len(records)), j.clock.Now()
	for _, r := range records {
		list = append(list, jobFrom(r, now))
	}
	return list, nil
}

// Job returns a job that lives here. The error is api.ErrNotFound for a job that has no record, and
// no cgroup from which its record could be restored.
func (j *jobs) Job(ctx context.Context, id string) (api.Job, error) {
	j.awaitLost(ctx, id)
	if r := j.store.Get(id); r != nil {
		return jobFrom(r, j.clock.Now()), nil
	}
	job, err := j.tree.Job(id)
	switch {
	case err != nil:
		return api.Job{}, err
	case job.Exists():
		return api.Job{}, fmt.Errorf("job %s has a cgroup but no record", id)
	}
	return api.Job{}, fmt.Errorf("job %s: %w", id, api.ErrNotFound)
}

// awaitLost waits for lost records to be restored: that of the job, or any if no id is given. Hooks
// report jobs with a cgroup and no record when they start for the first time. awaitLost does
// nothing after that, and does not wait for a job that has a record or no cgroup.
func (j *jobs) awaitLost(ctx context.Context, id ...string) {
	select {
	case <-j.started:
		return
	default:
	}
	if len(id) == 0 {
		all, err := j.tree.JobIDs()
		if err != nil {
			j.log.Error(err) // the records exist anyway
		}
		id = all
	}
	lost := func(id string) bool {
		job, err := j.tree.Job(id)
		return err == nil && j.store.Get(id) == nil && job.Exists()
	}
	if !slices.ContainsFunc(id, lost) {
		return
	}
	select {
	case <-j.started:
	case <-ctx.Done():
	}
}

// of returns the job whose cgroup contains a process.
func (j *jobs) of(ctx context.Context, pid int) (api.Job, error) {
	id, found, err := j.tree.JobOf(pid)
	if err != nil {
		return api.Job{}, err
	}
	if !found {
		return api.Job{}, fmt.Errorf("job of process %d: %w", pid, api.ErrNotFound)
	}
	j.awaitLost(ctx, id)
	r := j.store.Get(id)
	if r == nil {
		return api.Job{}, fmt.Errorf("job %s: %w", id, api.ErrNotFound)
	}
	return jobFrom(r, j.clock.Now()), nil
}

// mostNumbers is how many job numbers are tried. No node has more live jobs.
const mostNumbers = 100_000

// newID returns the next job id of this node that no cgroup has. Numbers start again if the state
// directory was deleted.
func (j *jobs) newID() (string, error) {
	j.numbers.Lock()
	defer j.numbers.Unlock()
	for range mostNumbers {
		n, err := jobstate.NextNumber(j.state)
		if err != nil {
			return "", err
		}
		id := fmt.Sprintf("%d.%s", n, j.node)
		job, err := j.tree.Job(id)
		if err != nil {
			return "", err
		}
		if !job.Exists() {
			return id, nil
		}
	}
	return "", fmt.Errorf("number a job: each of %d numbers has a cgroup", mostNumbers)
}

// forgetLimits removes the walltime limits from the records, for a configuration without hook
// walltime: nothing ends the jobs then. When hook walltime is enabled again, it sends the limits
// again.
func (j *jobs) forgetLimits() {
	var ids []string
	for _, r := range j.store.List() {
		if r.WalltimeLimit != nil {
			ids = append(ids, r.Job.ID)
		}
	}
	if err := j.store.Change(ids, func(r *jobstate.Record) { r.WalltimeLimit = nil }); err != nil {
		j.log.Errorf("forget limits of walltime: %v", err)
	}
}

func jobFrom(r *jobstate.Record, now jobstate.Moment) api.Job {
	j := api.Job{
		Job: r.Job, Phase: r.Phase, Begun: r.Begun, Launched: r.Launched.Wall, Suspended: r.Suspended,
		Elapsed: r.Elapsed(now).Seconds(), Left: timeLeft(r, now), ResourcesUsed: r.ResourcesUsed,
		Hosts: withoutReturned(r.Hosts), Diag: r.Diag, Notes: r.Notes,
	}
	if !r.SuspendedAt.IsZero() {
		j.Suspended += now.Sub(r.SuspendedAt)
	}
	if r.WalltimeLimit != nil {
		limit := r.WalltimeLimit.Seconds()
		j.Limit = &limit
	}
	return j
}

// timeLeft returns how many seconds a job may still run; nil if nothing limits it.
func timeLeft(r *jobstate.Record, now jobstate.Moment) *float64 {
	if r.WalltimeLimit == nil {
		return nil
	}
	left := max(*r.WalltimeLimit-r.Elapsed(now), 0).Seconds()
	return &left
}

// withoutReturned returns the usage of a job's hosts without the devices that the job has returned,
// which only a report lists.
func withoutReturned(hosts map[string]*hostapi.HostUsage) map[string]*hostapi.HostUsage {
	returned := func(d hostapi.DeviceUsage) bool { return d.Returned }
	list := map[string]*hostapi.HostUsage{}
	for name, h := range hosts {
		if h != nil && slices.ContainsFunc(h.Devices, returned) {
			less := *h
			less.Devices = slices.DeleteFunc(slices.Clone(h.Devices), returned)
			h = &less
		}
		list[name] = h
	}
	return list
}
