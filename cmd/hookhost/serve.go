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
		Long: `Run the node's daemon in the foreground. On SIGHUP it reads its configuration
and hooks again. A configuration that PBS sends (hookhost openpbs config) takes
effect without a signal. On SIGTERM or SIGINT the daemon completes the events
in progress and exits. Jobs continue to run within their limits, and the next
daemon manages them.

Below the mount point of cgroups, a job is in PREFIX.service/jobid/JOB, in each
hierarchy of cgroup v1, and in PREFIX.service/jobs/JOB on v2. PREFIX is
cgroup.prefix, by default pbs_jobs, and JOB is the job's whole id. Other
programs may rely on these paths, but not on what is below them.

One daemon serves all jobs of a node. It locks /run/hookhost/PREFIX.lock. A
second daemon with that prefix fails with an error that names the first one's
pid. Two daemons on one node need separate socket directories, state
directories and cgroup prefixes.`,
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
		return errors.New("only root may manage cgroups: run it as root")
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, unix.SIGHUP)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	doctor := []string{self, "doctor", "--state", c.State, "--socket", c.Socket}
	if c.named {
		doctor = append(doctor, "--config", c.Config)
	}
	return daemon.Serve(ctx, daemon.Options{
		Paths: c.Paths, Settings: s, Version: version, Log: newLog(s.File), Reload: reload,
		Invoked: os.Getenv("INVOCATION_ID") != "", Doctor: doctor,
	})
}
