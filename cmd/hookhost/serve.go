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
	return &cobra.Command{
		Use: "serve", Short: "Run the node's daemon", Args: noArgs,
		Long: `Run the node's daemon in the foreground. SIGHUP has it read its configuration and hooks again. It takes
over by itself what PBS sends (hookhost openpbs config). SIGTERM and SIGINT stop it after the events
that it is carrying out. Jobs live on, confined, and the next daemon takes them over.

One daemon has the jobs of a node. It locks /run/hookhost/PREFIX.lock, PREFIX being cgroup.prefix.
A second one is refused with its pid. Two daemons on one node want sockets in two directories, two
state directories and two prefixes in [cgroup].`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.serve(cmd); err != nil {
				return fmt.Errorf("serve: %w", err)
			}
			return nil
		},
	}
}

func (c *cli) serve(cmd *cobra.Command) error {
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
	return daemon.Serve(ctx, daemon.Options{
		Paths: c.Paths, Settings: s, Version: version, Log: newLog(s.File), Reload: reload,
		Invoked: os.Getenv("INVOCATION_ID") != "",
	})
}
