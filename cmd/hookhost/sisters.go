package main

import (
	"context"
	"fmt"
	"net/netip"
	"path"
	"path/filepath"
	"time"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/sister"
)

// debtsDir holds what other hosts have still to be told.
func (c *cli) debtsDir() string { return filepath.Join(c.state, "debts") }

func tlsFiles(s config.Sister) api.TLSFiles { return api.TLSFiles{CA: s.CA, Cert: s.Cert, Key: s.Key} }

// loadIdentity reads this host's certificate, which has to be for its name: the others would take it for somebody else.
func loadIdentity(s config.Sister, node string) (*api.Identity, error) {
	id, err := api.LoadIdentity(tlsFiles(s))
	if err != nil {
		return nil, fmt.Errorf("sister: %w", err)
	}
	if name := id.Name(); !pbs.SameHost(name, node) {
		return nil, fmt.Errorf("sister.cert: the certificate is for %s, this node is %s", name, node)
	}
	return id, nil
}

// listenToHosts makes ready what [sister] says: the way to other hosts, and where they reach this one. Nil without an error when
// they do not.
func (c *cli) listenToHosts(b *backend, cfg *config.File) (*api.TLSListener, error) {
	s := cfg.Sister
	if !s.Configured() {
		return nil, nil
	}
	id, err := loadIdentity(s, b.node)
	if err != nil {
		return nil, err
	}
	id.Reread = func(err error) {
		if err != nil {
			b.log.Errorf("sister: files have changed, those of before stay in force: %v", err)
			return
		}
		b.log.Info("sister: certificates have changed and were taken over")
	}
	if left := time.Until(id.Expires()); left < expiresSoon {
		b.log.Warnf("sister.cert: %s expires at %s", s.Cert, id.Expires().Format(time.DateTime))
	}
	b.identity = id
	b.fleet = sister.New(sister.Options{Identity: id, Port: s.Port, Hosts: s.Hosts, Width: s.Width,
		Connect: time.Duration(s.Connect), Answer: time.Duration(s.Answer)})
	if s.Listen == "" {
		return nil, nil
	}
	return api.ListenTLS(s.Listen, id, b.refused)
}

// rereadCertificates is for SIGHUP: whoever has renewed them learns at once whether they can be used.
func (b *backend) rereadCertificates() {
	if b.identity == nil {
		return
	}
	if err := b.identity.Reload(); err != nil {
		b.log.Errorf("sister: the certificates of before stay in force: %v", err)
	}
}

// MayHead tells whether another host may begin jobs here.
func (b *backend) MayHead(host string) bool {
	for _, pattern := range b.sister.Load().Heads {
		if match, err := path.Match(pattern, host); err == nil && match {
			return true
		}
	}
	return false
}

// AllowRoot tells whether such a job may be root's.
func (b *backend) AllowRoot() bool { return b.sister.Load().AllowRoot }

// Evidence finds none: only the hosts' own daemons attach processes here.
func (b *backend) Evidence(_ context.Context, pid int, job string) error {
	return &api.Error{Status: 403, Kind: api.KindTMOwner, Message: fmt.Sprintf("attach pid %d: nothing here says that it belongs to job %s", pid, job)}
}

// Origin knows no connections.
func (b *backend) Origin(context.Context, netip.AddrPort, netip.AddrPort, string) (string, error) {
	return "", api.ErrNotFound
}

// Forward has another host attach a process of its own to a job. What the hooks of that host answered comes back.
func (b *backend) Forward(ctx context.Context, host string, in api.AttachRequest) (api.Attached, error) {
	if b.fleet == nil {
		return api.Attached{}, fmt.Errorf("attach pid %d on %s: [sister] is not configured", in.PID, host)
	}
	var out api.Attached
	errs := b.fleet.Each(ctx, []string{host}, func(ctx context.Context, _ string, c *api.Client) error {
		var err error
		out, err = c.Attach(ctx, in.Job, in.PID)
		if err != nil && out.Outcome != nil && out.Outcome.Reject { // an answer, as any other
			err = nil
		}
		return err
	})
	return out, errs[host]
}
