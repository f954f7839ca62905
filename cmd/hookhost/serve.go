package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/daemon"
)

func (c *cli) serveCommand() *cobra.Command {
	var untilIdle bool
	cmd := &cobra.Command{
		Use: "serve [--until-idle]", Short: "Run the node's daemon", Args: noArgs,
		Long: `Run the node's daemon in the foreground. SIGHUP has it read its configuration and hooks again. It takes
over by itself what PBS sends (hookhost openpbs config). SIGTERM and SIGINT stop it after the events
that it is carrying out. Jobs live on, confined, and the next daemon takes them over.

One daemon has the jobs of a node. It locks /run/hookhost/PREFIX.lock, PREFIX being cgroup.prefix.
A second one is refused with its pid. Two daemons on one node want sockets in two directories, two
state directories and two prefixes in [cgroup].

'hookhost run' and 'hookhost event' start 'hookhost serve --until-idle' if no daemon runs. Its log is
until-idle.log in the state directory. It ends seconds after its last job and client, and makes room
at once for a daemon that stays.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.serve(cmd, untilIdle); err != nil {
				return fmt.Errorf("serve: %w", err)
			}
			return nil
		},
	}
	const usage = "end seconds after the last job and client, as 'hookhost run' starts it"
	cmd.Flags().BoolVar(&untilIdle, "until-idle", false, usage)
	return cmd
}

func (c *cli) serve(cmd *cobra.Command, untilIdle bool) error {
	s, err := c.loadSettings()
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("cgroups are root's: run it as root")
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, unix.SIGHUP)
	o := daemon.Options{
		Paths: c.Paths, Settings: s, Version: version, Log: newLog(s.File), Reload: reload,
		Invoked: os.Getenv("INVOCATION_ID") != "",
	}
	if !untilIdle {
		return daemon.Serve(ctx, o)
	}
	log, err := daemon.OpenLog(c.IdleLog())
	if err != nil {
		return err
	}
	defer log.Close()
	o.Log.SetOutput(console{daemon.Lossy{Log: log}})
	return daemon.ServeUntilIdle(ctx, o, log)
}
