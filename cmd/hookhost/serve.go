package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	sdnotify "github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/daemon"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/systemd"
)

func (c *cli) serveCommand() *cobra.Command {
	var whileUsed bool
	cmd := &cobra.Command{
		Use: "serve [--until-idle]", Short: "Run the node's daemon", Args: noArgs,
		Long: `Run the node's daemon in the foreground. SIGHUP has it read its configuration and hooks again; what PBS sends
(hookhost openpbs config) it takes over by itself. SIGTERM and SIGINT stop it after the
events that it is carrying out; jobs live on, confined, and the next daemon takes them over.

One daemon has the jobs of a node. It locks /run/hookhost/PREFIX.lock, PREFIX being cgroup.prefix, and a second one is refused with
its pid. Two daemons on one node want sockets in two directories, two state directories and two prefixes in [cgroup].

'hookhost run' and 'hookhost event' start 'hookhost serve --until-idle' where no daemon runs. It writes its log to until-idle.log in
the state directory, ends seconds after its last job and client, and makes room at once for a daemon that stays.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.loadSettings()
			if err != nil {
				return err
			}
			if os.Geteuid() != 0 {
				return errors.New("serve: cgroups are root's: run it as root")
			}
			if whileUsed {
				err = c.serveUntilIdle(cmd.Context(), s)
			} else {
				err = c.serve(cmd.Context(), s, newLog(s.file), untilIdle{})
			}
			if err != nil {
				return fmt.Errorf("serve: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&whileUsed, "until-idle", false, "end seconds after the last job and client, as 'hookhost run' starts it")
	return cmd
}

// yieldTime bounds the wait for a daemon that goes for this one.
const yieldTime = longestEvent + 10*time.Second

// serve is the owner's life. It ends with a signal, or with idle.
func (c *cli) serve(ctx context.Context, s settings, logger *logrus.Logger, idle untilIdle) error {
	ownUmask()
	if err := c.stay(&s); err != nil {
		return err
	}
	cfg := s.file
	waiting, cancel := context.WithTimeout(ctx, yieldTime)
	lock, err := daemon.Acquire(waiting, daemon.Dir, cfg.Cgroup.Prefix, idle.Idle != nil)
	cancel()
	if err != nil {
		return err
	}
	defer lock.Release()
	dir, err := c.lockDir(ctx)
	if err != nil {
		return err
	}
	defer dir.Release()
	if warning := startedApart(systemd.New(systemd.Run, time.Duration(cfg.Cgroup.SystemdWait)).Running(), os.Getenv("INVOCATION_ID") != "", ownCgroup()); warning != "" {
		logger.Warn(warning)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGHUP, unix.SIGTERM, unix.SIGINT)
	defer signal.Stop(signals)

	// Whoever started us may have left descriptors open; hooks' programs are not to have them.
	if err := withholdInherited(); err != nil {
		return err
	}
	// The socket first: callers wait until there is something to answer them.
	listener, err := api.Listen(c.socket)
	if err != nil {
		return err
	}
	defer listener.Close()
	b, err := c.openHost(ctx, cfg, logger, idle.JobEnded)
	if err != nil {
		return err
	}
	defer func() {
		if err := b.Close(); err != nil {
			logger.Error(err)
		}
	}()
	if err := b.note(s, nil); err != nil {
		return err
	}
	b.forgetLimits()
	hosts, err := b.listenToHosts(cfg)
	if err != nil {
		return err
	}
	listener.Refused = b.refused
	server := api.NewServer(b, b, b, b)
	server.Reports, server.MoM, server.Host, server.Refused = b, b, b.node, b.refused
	b.watchHosts(ctx, cfg)
	server.Clients = idle.Clients
	server.ErrorLog = log.New(logger.WriterLevel(logrus.DebugLevel), "", 0)
	server.Ignored = func(event hostapi.Event, keys []string) {
		logger.WithFields(logrus.Fields{"event": event, "keys": keys}).Debug("event has keys that are not known here")
	}
	if hosts != nil {
		server.Sisters = b
	}
	served := make(chan error, 2)
	go func() { served <- server.Serve(listener) }()
	entry := logger.WithFields(logrus.Fields{"version": version, "node": b.node, "socket": c.socket})
	if hosts != nil {
		defer hosts.Close()
		go func() { served <- server.Serve(hosts) }()
		entry = entry.WithField("listen", hosts.Addr())
	}
	entry.Info("hookhost serves")
	if idle.log != nil {
		if err := daemon.Detach(idle.log); err != nil {
			return err
		}
	}
	idle.Start(b.hasJobs)
	notify(logger, sdnotify.SdNotifyReady)
	go b.reconcile(ctx) // ending jobs may take long; new ones need not wait
	for {
		select {
		case <-idle.Done():
			logger.Info("no job and no client: ending")
			err := stop(server)
			if err == nil && b.hasJobs() {
				err = errJobBegun
			}
			return err
		case err := <-served:
			return err
		case sig := <-signals:
			if sig != unix.SIGHUP {
				logger.Infof("%v: stopping; jobs live on", sig)
				notify(logger, sdnotify.SdNotifyStopping)
				return stop(server)
			}
			reload(ctx, b, logger)
		}
	}
}

// lockDir has this daemon be the only one with its socket in that directory. Files of hooks' programs
// and of jobs lie beside the socket, and a daemon removes those that no job of its own has.
//
// The owner there has another prefix, so its error is not daemon.ErrRunning: `run` is not to wait for it.
func (c *cli) lockDir(ctx context.Context) (*daemon.Lock, error) {
	const name = ".directory"                                            // which no prefix is called
	lock, err := daemon.Acquire(ctx, filepath.Dir(c.socket), name, true) // true: nobody is asked to go for it
	if err != nil {
		return nil, fmt.Errorf("socket %s: one daemon a directory: %v", c.socket, err)
	}
	return lock, nil
}

// startedApart says what it means that a daemon was not started by systemd where systemd runs the node; "" where it was.
// invoked: systemd set INVOCATION_ID, which a shell's children may have inherited.
func startedApart(systemdRuns, invoked bool, at string) string {
	session := strings.Contains(at, ".scope") || strings.HasPrefix(at, "/user.slice/")
	if !systemdRuns || invoked && !session {
		return ""
	}
	return fmt.Sprintf("started by hand, in %s: the daemon may end with its terminal, nobody starts it again, and limits of that session are limits of the daemon. "+
		"Jobs are in a unit of their own and are confined as always. For good: systemctl start hookhost", cmp.Or(at, "an unknown cgroup"))
}

// ownCgroup returns where systemd has put this process; "" where that cannot be told.
func ownCgroup() string {
	proc, err := kernfs.Open("/proc")
	if err != nil {
		return ""
	}
	return cgroup.BySystemd(proc)
}

// reload takes over a changed configuration, or says why not and goes on with the old one.
func reload(ctx context.Context, b *backend, logger *logrus.Logger) {
	notify(logger, sdnotify.SdNotifyReloading)
	b.rereadCertificates()
	if err := b.Reload(ctx); err != nil {
		logger.Errorf("reload: %v", err)
	} else {
		logger.Info("reloaded")
	}
	notify(logger, sdnotify.SdNotifyReady)
}

// longestEvent is a little more than the longest alarm of the built-in hooks. An event that waits for other hosts may take longer: what is
// cut off then the next daemon ends or goes on with, as after a crash.
const longestEvent = 100 * time.Second

// stop waits for the events that have begun.
func stop(server *api.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), longestEvent)
	defer cancel()
	return server.Shutdown(ctx)
}

// notify tells systemd, if it is systemd that started us.
func notify(logger *logrus.Logger, state string) {
	if _, err := sdnotify.SdNotify(false, state); err != nil {
		logger.Warnf("notify systemd: %v", err)
	}
}
