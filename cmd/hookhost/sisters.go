package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/sister"
)

// removeDebts removes what an earlier hookhost kept for hosts that had missed the end of a job. They
// ask by themselves now.
func (c *cli) removeDebts() error { return os.RemoveAll(filepath.Join(c.state, "debts")) }

// connect makes ready the way to other hosts that [sister] says, for the Host to take. Without
// [sister] there is none. Certificates that cannot be used keep the daemon from starting.
func (b *backend) connect(cfg *config.File) error {
	if err := b.cli.removeDebts(); err != nil {
		b.log.Warn(err)
	}
	s := cfg.Sister
	if !s.Configured() {
		return nil
	}
	id, err := sister.LoadIdentity(s, b.node)
	if err != nil {
		return err
	}
	id.Reread = func(err error) {
		if err != nil {
			b.log.Errorf("sister: files have changed, those of before stay in force: %v", err)
			return
		}
		b.log.Info("sister: certificates have changed and were taken over")
	}
	if left := time.Until(id.Expires()); left < api.ExpiresSoon {
		b.log.Warnf("sister.cert: %s expires at %s", s.Cert, id.Expires().Format(time.DateTime))
	}
	b.identity, b.fleet = id, sister.NewFleet(s, id)
	return nil
}

// spread returns this host's jobs, as far as they are on other hosts too.
func (b *backend) spread(store sister.Store) *sister.Jobs {
	j := &sister.Jobs{Node: b.node, Store: store, Log: b.log, MoMUsage: b.momUsage}
	if b.fleet != nil {
		j.Others = b.fleet
	}
	return j
}

// listenToHosts opens where other hosts reach this one; nil without an error where they do not.
func (b *backend) listenToHosts(cfg *config.File) (*api.TLSListener, error) {
	if b.identity == nil || cfg.Sister.Listen == "" {
		return nil, nil
	}
	return api.ListenTLS(cfg.Sister.Listen, b.identity, b.refused)
}

// watchHosts asks heads until Close.
func (b *backend) watchHosts(ctx context.Context, cfg *config.File) {
	if b.fleet == nil {
		return
	}
	ctx, b.unwatch = context.WithCancel(ctx)
	b.heads = sister.NewHeads(b.store, b.fleet, b.host.Abandon,
		time.Duration(cfg.Sister.Retry), time.Duration(cfg.Sister.HeadTimeout), b.log)
	b.watches.Go(func() { b.heads.Run(ctx) })
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

// MayHead is config.Sister.MayHead.
func (b *backend) MayHead(host string) bool { return b.sister.Load().MayHead(host) }

// AllowRoot is true where such a job may be root's.
func (b *backend) AllowRoot() bool { return b.sister.Load().AllowRoot }

// Forward is sister.Fleet.Attach.
func (b *backend) Forward(ctx context.Context, host string, in api.AttachRequest) (api.Attached, error) {
	if b.fleet == nil {
		return api.Attached{}, fmt.Errorf("attach pid %d on %s: [sister] is not configured", in.PID, host)
	}
	return b.fleet.Attach(ctx, host, in)
}
