package daemon

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	sdnotify "github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/settings"
	"github.com/hookhost/hookhost/internal/systemd"
)

// Options configures a daemon.
type Options struct {
	Paths
	Settings settings.Settings // as read from Paths.Source
	Version  string
	Log      *logrus.Logger
	Reload   <-chan os.Signal // triggers a reload of the configuration and the hooks
	Invoked  bool             // systemd has set INVOCATION_ID, which a shell's children may have inherited
	Doctor   []string         // examines this node: status 0, or 1 if a hook cannot work; nil for none
}

// longestEvent is how long a daemon that stops waits for its events. It is longer than a built-in
// hook's alarm and than pbs_mom's default alarm of 90 s. If an event is cut off, the next daemon
// ends it or continues it, as after a crash.
const longestEvent = 100 * time.Second

// Serve runs the owner until ctx ends and the current events are over. Jobs live on. It fails with
// the owner's pid if another process is the owner.
func Serve(ctx context.Context, o Options) error {
	if err := CloseInherited(); err != nil { // hooks' programs must not get them
		return err
	}
	unix.Umask(0o022) // for files made for jobs, as in pbs_mom (openpbs src/resmom/mom_main.c)
	if err := o.Settings.Stay(o.recorded); err != nil {
		return err
	}
	cfg := o.Settings.File
	lock, err := acquire(locks, cfg.Cgroup.Prefix)
	if err != nil {
		return err
	}
	defer lock.Release()
	dir, err := o.lockDir()
	if err != nil {
		return err
	}
	defer dir.Release()
	o.warnApart(systemd.New(systemd.Run, time.Duration(cfg.Cgroup.SystemdWait)).Running())

	stopping, ctx := ctx.Done(), context.WithoutCancel(ctx)
	// The socket first: callers wait until the daemon can answer them.
	listener, err := api.Listen(o.Socket)
	if err != nil {
		return err
	}
	defer listener.Close()
	d, err := open(&o)
	if err != nil {
		return err
	}
	defer func() {
		if err := d.close(); err != nil {
			o.Log.Error(err)
		}
	}()
	d.conf.noteSent(o.Settings)
	d.configured()
	listener.Refused = d.refusals.note
	server := d.server()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	entry := o.Log.WithFields(logrus.Fields{"version": o.Version, "node": d.conf.node, "socket": o.Socket})
	entry.Info("hookhost serves")
	o.notify(sdnotify.SdNotifyReady)
	examining, stopExamining := context.WithCancel(ctx)
	defer stopExamining()
	go func() { // starting hooks and ending jobs may take long; events need not wait
		d.host.AwaitStart(ctx)
		close(d.jobs.started)
		go d.doctor.run(examining)
		d.reconcile(ctx)
	}()
	for {
		select {
		case err := <-served:
			return err
		case <-stopping:
			o.Log.Info("stopping; jobs live on")
			o.notify(sdnotify.SdNotifyStopping)
			return stopServer(server)
		case <-o.Reload:
			o.reload(ctx, d)
		}
	}
}

// server returns the server of the API with all its backends.
func (d *daemon) server() *api.Server {
	s := api.NewServer(d, d.jobs, d, d.processes)
	s.Reports, s.MoM, s.Logins, s.Host, s.Refused = d.jobs, d.mom, d, d.conf.node, d.refusals.note
	s.Doctor = d.doctor
	s.Meter, s.Metrics, s.ErrorLog = d.meter, d.endpoint.Handler, d.endpoint.ErrorLog
	return s
}

// lockDir makes this daemon the only one with its socket in that directory. Files of hooks'
// programs and of jobs lie beside the socket. A daemon removes those that belong to none of its
// jobs.
func (o *Options) lockDir() (*prefixLock, error) {
	lock, err := acquire(filepath.Dir(o.Socket), api.DirectoryLock) // no prefix has that name
	if err != nil {
		return nil, fmt.Errorf("socket %s: one daemon a directory: %w", o.Socket, err)
	}
	return lock, nil
}

// warnApart logs the consequences if systemd runs the node but has not started the daemon.
func (o *Options) warnApart(systemdRuns bool) {
	at := ""
	if proc, err := kernfs.Open("/proc"); err == nil {
		at = cgroup.BySystemd(proc)
	}
	session := strings.Contains(at, ".scope") || strings.HasPrefix(at, "/user.slice/")
	if !systemdRuns || o.Invoked && !session {
		return
	}
	o.Log.Warnf("started by hand, in %s: the daemon may end with its terminal, nobody starts it again, and limits of "+
		"that session are limits of the daemon. Jobs are in a unit of their own and are confined as always. "+
		"For good: systemctl start hookhost", cmp.Or(at, "an unknown cgroup"))
}

// reload applies a changed configuration, or logs why it cannot and keeps the old one.
func (o *Options) reload(ctx context.Context, d *daemon) {
	o.notify(sdnotify.SdNotifyReloading)
	if err := d.conf.Reload(ctx); err != nil {
		o.Log.Errorf("reload: %v", err)
	} else {
		o.Log.Info("reloaded")
	}
	o.notify(sdnotify.SdNotifyReady)
}

// stopServer waits for the events that have begun.
func stopServer(server *api.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), longestEvent)
	defer cancel()
	return server.Shutdown(ctx)
}

// notify sends a state to systemd, if systemd has started this daemon.
func (o *Options) notify(state string) {
	if _, err := sdnotify.SdNotify(false, state); err != nil {
		o.Log.Warnf("notify systemd: %v", err)
	}
}
