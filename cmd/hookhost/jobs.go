package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"sort"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/api"
)

func (c *cli) jobsCommand() *cobra.Command {
	var asJSON, mine bool
	cmd := &cobra.Command{
		Use: "jobs [--mine] [--json]", Short: "List the jobs on this host, or tell a job its time left", Args: noArgs,
		Long: `List the jobs that live on this host: all of them for root, the caller's own for others.

  LEFT     the time until the job's walltime is over; "-": nothing limits it
  CPULIST  its cpus
  MEM      its memory on this host now, anonymous and shared
  LIMIT    how much of that it may have on this host
  OOM      how many of its processes the kernel killed for lack of memory
  HOSTS    how many hosts it has
  RANKS    its MPI ranks that were seen

Of a job on several hosts this host's part is listed.

--mine is for programs inside a job. It prints how many seconds the job that it is called in may
still run: a whole number, rounded down, or "unlimited". Seconds in which the job is suspended do
not count. Outside of jobs it fails. Without a daemon no job is recorded, and both fail.`,
		Example: `  # A job script that works until five minutes are left and then saves what it has.
  while left=$(hookhost jobs --mine) && { [ "$left" = unlimited ] || [ "$left" -gt 300 ]; }; do
      ./work --one-step || exit
  done
  ./work --save`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if mine {
				return c.jobsMine(cmd, asJSON)
			}
			client, err := api.Dial(c.Socket)
			if err != nil {
				return fmt.Errorf("jobs: %w", err)
			}
			defer client.Close()
			jobs, err := client.Jobs(cmd.Context())
			if err != nil {
				return err
			}
			sort.Slice(jobs, func(i, j int) bool { return jobs[i].Begun.Before(jobs[j].Begun) })
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"jobs": jobs})
			}
			now, err := client.Present(cmd.Context())
			if err != nil {
				return err
			}
			return writeJobs(cmd.OutOrStdout(), jobs, now.Jobs)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	cmd.Flags().BoolVar(&mine, "mine", false, "the seconds left of the job that this is called in; with --json the job")
	return cmd
}

// jobsMine prints the job in which it is called. The caller's cgroup shows which job that is, since
// environment variables may be another job's.
func (c *cli) jobsMine(cmd *cobra.Command, asJSON bool) error {
	j, err := c.mine(cmd.Context())
	if err != nil {
		return fmt.Errorf("jobs --mine: %w", err)
	}
	switch {
	case asJSON:
		return json.NewEncoder(cmd.OutOrStdout()).Encode(j)
	case j.Left == nil:
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "unlimited")
	default:
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%.0f\n", math.Floor(*j.Left))
	}
	return err
}

// mine asks the daemon, which knows its tree, so no configuration is read.
func (c *cli) mine(ctx context.Context) (api.Job, error) {
	client, err := api.Dial(c.Socket)
	if err != nil {
		return api.Job{}, err
	}
	defer client.Close()
	j, err := client.Mine(ctx)
	if errors.Is(err, api.ErrNotFound) {
		err = fmt.Errorf("process %d is in no job of this user's", os.Getpid())
	}
	return j, err
}
