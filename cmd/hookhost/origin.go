package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/stray"
)

// origins finds out which job has sent a process that came by ssh: it asks the host where the connection comes from.
type origins struct {
	b        *backend
	environs *proc.Environs
	looking  sync.Mutex // over a look at the table of connections: one at a time, whoever asks

	mu        sync.Mutex
	addresses map[string]addresses // by host
}

var _ host.Origins = (*origins)(nil)

// addresses are what a host's name stood for when it was looked up.
type addresses struct {
	list []netip.Addr
	at   time.Time
}

// addressesHold is for how long names are not looked up again.
const addressesHold = 10 * time.Minute

// Origin returns the job that the connection comes from, and the host that says so. Only a host of the job is asked, and only about a
// connection from its own address: no host says what another one's users did.
func (o *origins) Origin(ctx context.Context, from hostapi.Origin, job *hostapi.Job) (id, name string, err error) {
	local, err := netip.ParseAddrPort(from.Local)
	if err != nil {
		return "", "", err
	}
	remote, err := netip.ParseAddrPort(from.Remote)
	if err != nil {
		return "", "", err
	}
	name, err = o.hostAt(ctx, local.Addr(), job)
	if err != nil || name == "" {
		return "", "", err
	}
	switch {
	case pbs.SameHost(name, o.b.node):
		id, err = o.jobOf(ctx, local, remote)
	case o.b.fleet == nil:
		return "", "", nil
	default:
		err = o.b.fleet.Each(ctx, []string{name}, func(ctx context.Context, _ string, c *api.Client) error {
			var err error
			if id, err = c.Origin(ctx, from.Local, from.Remote); errors.Is(err, api.ErrNotFound) {
				id, err = "", nil
			}
			return err
		})[name]
	}
	if errors.Is(err, api.ErrNotFound) {
		err = nil
	}
	if err != nil || id == "" {
		return "", "", err
	}
	return id, name, nil
}

// hostAt returns the host of the job that has the address; "" where none has. Hosts are looked up as they are called: [sister.hosts] before
// names. One whose name stands for nothing is passed over.
func (o *origins) hostAt(ctx context.Context, addr netip.Addr, job *hostapi.Job) (string, error) {
	hosts, err := pbs.Hosts(job.ExecVnode, job.ExecHost2)
	if err != nil {
		return "", err
	}
	addr = addr.Unmap().WithZone("")
	if stray.FromHere(addr.String()) {
		return o.b.node, nil
	}
	for _, name := range hosts {
		if slices.Contains(o.lookUp(ctx, name), addr) {
			return name, nil
		}
		if ctx.Err() != nil {
			return "", fmt.Errorf("look up the job's hosts: %w", context.Cause(ctx))
		}
	}
	return "", nil
}

func (o *origins) lookUp(ctx context.Context, name string) []netip.Addr {
	o.mu.Lock()
	had, known := o.addresses[name]
	o.mu.Unlock()
	if known && time.Since(had.at) < addressesHold {
		return had.list
	}
	called := name
	if cfg := o.b.sister.Load(); cfg != nil && cfg.Hosts[name] != "" {
		if at, _, err := net.SplitHostPort(cfg.Hosts[name]); err == nil {
			called = at
		}
	}
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", called)
	if err != nil { // the next process that comes may find the name
		return nil
	}
	for i, a := range list {
		list[i] = a.Unmap().WithZone("")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.addresses) > 1<<16 || o.addresses == nil {
		o.addresses = map[string]addresses{}
	}
	o.addresses[name] = addresses{list, time.Now()}
	return list
}

// jobOf returns the job of which a process holds this host's end of the connection. It fails with api.ErrNotFound where none does, and where
// processes of several do: then nobody can say which of them it was.
func (o *origins) jobOf(ctx context.Context, local, remote netip.AddrPort) (string, error) {
	o.looking.Lock()
	defer o.looking.Unlock()
	if err := ctx.Err(); err != nil { // who asked has gone meanwhile
		return "", err
	}
	recs, err := o.b.store.List(ctx)
	if err != nil {
		return "", err
	}
	var jobs []stray.Job
	for _, rec := range recs {
		if rec.Phase != jobstate.PhaseExiting {
			jobs = append(jobs, stray.Job{ID: rec.Job.ID, UID: rec.Job.Owner.UID})
		}
	}
	from := hostapi.Origin{Local: local.String(), Remote: remote.String()}
	id, err := o.facts().Sender(ctx, from, jobs, func(job string) ([]int, error) {
		j, err := o.b.tree.Job(job)
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
	r := &stray.Reader{Procfs: o.b.procfs, JobOf: o.b.tree.JobOf, Environ: o.environs.Read}
	if own, err := o.b.procfs.Executable(os.Getpid()); err == nil {
		r.Hookhost = append(r.Hookhost, own)
	}
	return r
}

// Origin tells another host which job one of its connections comes from.
func (b *backend) Origin(ctx context.Context, local, remote netip.AddrPort, _ string) (string, error) {
	return b.origins.jobOf(ctx, local, remote)
}

// evidenceTime is how long the evidence of another host is waited for.
const evidenceTime = 3 * time.Second

// Evidence returns nil when this host finds by itself that the process belongs to the job: by the rules that hold for strays. Where it
// came by ssh that takes the word of the host that the connection comes from.
func (b *backend) Evidence(ctx context.Context, pid int, job string) error {
	none := &api.Error{Status: http.StatusForbidden, Kind: api.KindTMOwner, Message: fmt.Sprintf("attach pid %d: nothing here says that it belongs to job %s", pid, job)}
	p, err := proc.Read(b.procfs, pid)
	if errors.Is(err, proc.ErrGone) {
		return none
	}
	if err != nil {
		return err
	}
	recs, err := b.store.List(ctx)
	if err != nil {
		return err
	}
	var jobs []stray.Job
	var of *hostapi.Job
	var begun time.Time
	for _, rec := range recs {
		jobs = append(jobs, stray.Job{ID: rec.Job.ID, UID: rec.Job.Owner.UID, Session: rec.Job.SessionID})
		if rec.Job.ID == job {
			of, begun = rec.Job, rec.Begun
		}
	}
	f, err := b.origins.facts().Read(p)
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
		id, _, err := b.origins.Origin(ctx, *f.SSH, of)
		if err != nil {
			b.log.WithField("job", job).Warnf("attach pid %d: ask where it comes from: %v", pid, err)
		}
		if err == nil && id == job {
			return nil
		}
	}
	return none
}
