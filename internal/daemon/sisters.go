package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/sister"
)

// sisters are the other hosts. All fields below log are nil if this host talks to no other.
type sisters struct {
	conf    *configuration
	origins *origins
	log     *logrus.Entry

	identity *api.Identity // this host's
	fleet    *sister.Fleet
	heads    *sister.Heads
	unwatch  context.CancelFunc // ends the work of heads
	watches  sync.WaitGroup
}

// connect makes ready the way to other hosts, if [sister] is configured. Certificates that cannot
// be used keep the daemon from starting.
func (s *sisters) connect() error {
	cfg := s.conf.file.Load().Sister
	if !cfg.Configured() {
		return nil
	}
	id, err := sister.LoadIdentity(cfg, s.conf.node)
	if err != nil {
		return err
	}
	id.Reread = func(err error) {
		if err != nil {
			s.log.Errorf("sister: files have changed, those of before stay in force: %v", err)
			return
		}
		s.log.Info("sister: certificates have changed and were taken over")
	}
	if left := time.Until(id.Expires()); left < api.ExpiresSoon {
		s.log.Warnf("sister.cert: %s expires at %s", cfg.Cert, id.Expires().Format(time.DateTime))
	}
	s.identity, s.fleet = id, sister.NewFleet(cfg, id)
	return nil
}

// listen opens the port for other hosts. The listener is nil without an error if there is none.
func (s *sisters) listen(refused func(peer api.Peer, call string, err error)) (*api.TLSListener, error) {
	at := s.conf.file.Load().Sister.Listen
	if s.identity == nil || at == "" {
		return nil, nil
	}
	return api.ListenTLS(at, s.identity, refused)
}

// watch asks the heads of jobs until close.
func (s *sisters) watch(
	ctx context.Context, jobs sister.Records, abandon func(ctx context.Context, id, run, why string) error,
) {
	if s.fleet == nil {
		return
	}
	cfg := s.conf.file.Load().Sister
	ctx, s.unwatch = context.WithCancel(ctx)
	s.heads = sister.NewHeads(jobs, s.fleet, abandon, time.Duration(cfg.Retry), time.Duration(cfg.HeadTimeout), s.log)
	s.watches.Go(func() { s.heads.Run(ctx) })
}

// rereadCertificates is for SIGHUP: an administrator who has renewed them learns at once whether
// they can be used.
func (s *sisters) rereadCertificates() {
	if s.identity == nil {
		return
	}
	if err := s.identity.Reload(); err != nil {
		s.log.Errorf("sister: the certificates of before stay in force: %v", err)
	}
}

// stop ends the questions to heads.
func (s *sisters) stop() {
	if s.unwatch != nil {
		s.unwatch()
	}
}

// close closes the connections. wait says that the last questions to heads are waited for.
func (s *sisters) close(wait bool) {
	if wait {
		s.watches.Wait()
	}
	if s.fleet != nil {
		s.fleet.Close()
	}
}

// MayHead reports whether a host may begin jobs here.
func (s *sisters) MayHead(host string) bool { return s.conf.file.Load().Sister.MayHead(host) }

// AllowRoot is true if such a job may be root's.
func (s *sisters) AllowRoot() bool { return s.conf.file.Load().Sister.AllowRoot }

// Forward has another host attach a process.
func (s *sisters) Forward(ctx context.Context, host string, in api.AttachRequest) (api.Attached, error) {
	if s.fleet == nil {
		return api.Attached{}, fmt.Errorf("attach pid %d on %s: [sister] is not configured", in.PID, host)
	}
	return s.fleet.Attach(ctx, host, in)
}

// Origin returns the job of which a process holds this host's end of a connection, for another
// host.
func (s *sisters) Origin(ctx context.Context, local, remote netip.AddrPort) (string, error) {
	return s.origins.jobOf(ctx, local, remote)
}

// Evidence returns nil if this host finds by itself that a process belongs to a job.
func (s *sisters) Evidence(ctx context.Context, pid int, job string) error {
	return s.origins.evidence(ctx, pid, job)
}
