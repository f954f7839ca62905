package sister

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Origins finds out which job has sent a process that came by ssh: it asks the host where the
// connection comes from. All fields are needed but Fleet. Its methods may be called at the same
// time.
type Origins struct {
	Node  string                   // this host in exec_vnode
	Fleet *Fleet                   // nil where other hosts cannot be asked
	Hosts func() map[string]string // HOST:PORT of those that are reached otherwise than by their names
	IsOwn func(addr string) bool   // the address is this host's

	// JobOf returns the job of which a process holds this host's end of a connection. The error is
	// api.ErrNotFound where none does.
	JobOf func(ctx context.Context, local, remote netip.AddrPort) (string, error)

	mu        sync.Mutex
	addresses map[string]addresses // by host
}

// addresses are what a host's name stood for when it was looked up.
type addresses struct {
	list []netip.Addr
	at   time.Time
}

// addressesHold is for how long names are not looked up again.
const addressesHold = 10 * time.Minute

// Origin returns the job that the connection comes from, and the host that says so. Only a host of
// the job is asked, and only about a connection from its own address: no host says what another
// one's users did. Both are "" where none of them knows.
func (o *Origins) Origin(ctx context.Context, from hostapi.Origin, job *hostapi.Job) (id, name string, err error) {
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
	case pbs.SameHost(name, o.Node):
		id, err = o.JobOf(ctx, local, remote)
	case o.Fleet == nil:
		return "", "", nil
	default:
		err = o.Fleet.Each(ctx, []string{name}, func(ctx context.Context, _ string, c *api.Client) error {
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

// hostAt returns the host of the job that has the address; "" where none has. A host whose name
// stands for nothing is passed over.
func (o *Origins) hostAt(ctx context.Context, addr netip.Addr, job *hostapi.Job) (string, error) {
	hosts, err := pbs.Hosts(job.ExecVnode, job.ExecHost2)
	if err != nil {
		return "", err
	}
	addr = addr.Unmap().WithZone("")
	if o.IsOwn(addr.String()) {
		return o.Node, nil
	}
	for _, name := range hosts {
		if slices.Contains(o.addressesOf(ctx, name), addr) {
			return name, nil
		}
		if ctx.Err() != nil {
			return "", fmt.Errorf("look up the job's hosts: %w", context.Cause(ctx))
		}
	}
	return "", nil
}

// addressesOf looks a host up as it is called: Hosts goes before names.
func (o *Origins) addressesOf(ctx context.Context, name string) []netip.Addr {
	o.mu.Lock()
	known, ok := o.addresses[name]
	o.mu.Unlock()
	if ok && time.Since(known.at) < addressesHold {
		return known.list
	}
	called := name
	if at, _, err := net.SplitHostPort(o.Hosts()[name]); err == nil {
		called = at
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
