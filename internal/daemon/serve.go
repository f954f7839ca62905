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

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/settings"
	"github.com/hookhost/hookhost/internal/systemd"
)

// Options says how a daemon serves.
type Options struct {
	Paths
	Settings settings.Settings // as they were read from Paths.Source
	Version  string
	Log      *logrus.Logger
	Reload   <-chan os.Signal // has the configuration and the hooks read again
	Invoked  bool             // systemd has set INVOCATION_ID, which a shell's children may have inherited
}

// longestEvent is a little more than the longest alarm of the built-in hooks. The next daemon ends
// an event that is cut off, or goes on with it, as after a crash.
const longestEvent = 100 * time.Second

// Serve is the owner's life. Serve ends with ctx, after the events that it is carrying out. Jobs
// live on. Serve fails with the owner's pid if another process is the owner.
func Serve(ctx context.Context, o Options) error {
	if err := CloseInherited(); err != nil { // hooks' programs are not to have them
		return err
	}
	unix.Umask(0o022) // of what is made for jobs, as pbs_mom has it (openpbs src/resmom/mom_main.c)
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
	// The socket first: callers wait until there is something to answer them.
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
	d.conf.noteSent(o.Settings, nil)
	d.configured()
	listener.Refused = d.refusals.note
	server := d.server()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	entry := o.Log.WithFields(logrus.Fields{"version": o.Version, "node": d.conf.node, "socket": o.Socket})
	entry.Info("hookhost serves")
	o.notify(sdnotify.SdNotifyReady)
	go func() { // starting hooks and ending jobs may take long; events need not wait
		d.host.AwaitStart(ctx)
		close(d.jobs.started)
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

// server returns the server of the API with all its answers.
func (d *daemon) server() *api.Server {
	s := api.NewServer(d, d.jobs, d, d.processes)
	s.Reports, s.MoM, s.Host, s.Refused = d.jobs, d.mom, d.conf.node, d.refusals.note
	s.Meter, s.Metrics, s.ErrorLog = d.meter, d.endpoint.Handler, d.endpoint.ErrorLog
	s.Ignored = func(event hostapi.Event, keys []string) {
		d.log.WithFields(logrus.Fields{"event": event, "keys": keys}).Debug("event has keys that are not known here")
	}
	return s
}

// lockDir makes this daemon the only one with its socket in that directory. Files of hooks'
// programs and of jobs lie beside the socket. A daemon removes those that no job of its own has.
func (o *Options) lockDir() (*prefixLock, error) {
	lock, err := acquire(filepath.Dir(o.Socket), api.DirectoryLock) // no prefix has that name
	if err != nil {
		return nil, fmt.Errorf("socket %s: one daemon a directory: %w", o.Socket, err)
	}
	return lock, nil
}

// warnApart logs what it means that systemd runs the node and has not started the daemon.
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

// reload takes over a changed configuration, or logs why not and goes on with the old one.
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
