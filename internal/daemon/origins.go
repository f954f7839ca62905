package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/sister"
	"github.com/hookhost/hookhost/internal/stray"
)

// origins finds out which job holds a connection of this host, and asks other hosts about theirs.
type origins struct {
	*sister.Origins
	store  *jobstate.Store
	tree   *cgroup.Tree
	procfs *kernfs.FS
	log    *logrus.Entry

	environs *proc.Environs
	looking  sync.Mutex // over a look at the table of connections: one at a time
}

var _ host.Origins = (*origins)(nil)

// jobOf returns the job of which a process holds this host's end of the connection. The error is
// api.ErrNotFound if none does, or if processes of several jobs do: nothing says which it was then.
func (o *origins) jobOf(ctx context.Context, local, remote netip.AddrPort) (string, error) {
	o.looking.Lock()
	defer o.looking.Unlock()
	if err := ctx.Err(); err != nil { // the caller has gone meanwhile
		return "", err
	}
	var jobs []stray.Job
	for _, rec := range o.store.List() {
		if rec.Phase != jobstate.PhaseExiting {
			jobs = append(jobs, stray.Job{ID: rec.Job.ID, UID: rec.Job.Owner.UID})
		}
	}
	from := hostapi.Origin{Local: local.String(), Remote: remote.String()}
	id, err := o.facts().Sender(ctx, from, jobs, func(job string) ([]int, error) {
		j, err := o.tree.Job(job)
		if err != nil {
			return nil, err
		}
		return j.Processes()
	})
	if err == nil && id == "" {
		err = api.ErrNotFound
	}
	return id, err
}

// facts reads what this host knows of processes.
func (o *origins) facts() *stray.Reader {
	r := &stray.Reader{Procfs: o.procfs, JobOf: o.tree.JobOf, Environ: o.environs.Read}
	if own, err := o.procfs.Executable(os.Getpid()); err == nil {
		r.Hookhost = append(r.Hookhost, own)
	}
	return r
}

// evidenceTime is how long the evidence of another host is waited for.
const evidenceTime = 3 * time.Second

// evidence returns nil if this host finds by itself that a process belongs to a job, by the rules
// that hold for strays. If the process came by ssh, this needs an answer of the host that the
// connection comes from.
func (o *origins) evidence(ctx context.Context, pid int, job string) error {
	none := &api.Error{
		Status: http.StatusForbidden, Kind: api.KindTMOwner,
		Message: fmt.Sprintf("attach pid %d: nothing here says that it belongs to job %s", pid, job),
	}
	p, err := proc.Read(o.procfs, pid)
	if errors.Is(err, proc.ErrGone) {
		return none
	}
	if err != nil {
		return err
	}
	var jobs []stray.Job
	var of *hostapi.Job
	var begun time.Time
	for _, rec := range o.store.List() {
		jobs = append(jobs, stray.Job{ID: rec.Job.ID, UID: rec.Job.Owner.UID, Session: rec.Job.SessionID})
		if rec.Job.ID == job {
			of, begun = rec.Job, rec.Begun
		}
	}
	f, err := o.facts().Read(p)
	if errors.Is(err, proc.ErrGone) || of == nil {
		return none
	}
	if err != nil {
		return err
	}
	if f.In == job && p.UID == of.Owner.UID {
		return nil
	}
	older := f.Age > time.Since(begun) // its connection is long gone, and the port may be another's by now
	f.Age = max(f.Age, stray.Young)    // it is just being started: that is why somebody asks
	switch v := stray.Match(f, jobs); {
	case v.Class == stray.Certain && v.Job == job:
		return nil
	case v.Class == stray.Ask && !older:
		ctx, cancel := context.WithTimeout(ctx, evidenceTime)
		defer cancel()
		id, _, err := o.Origin(ctx, *f.SSH, of)
		if err != nil {
			o.log.WithField("job", job).Warnf("attach pid %d: ask where it comes from: %v", pid, err)
		}
		if err == nil && id == job {
			return nil
		}
	}
	return none
}
