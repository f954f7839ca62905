package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/pbs"
)

func (c *cli) jobsCommand() *cobra.Command {
	var asJSON, mine bool
	var user string
	cmd := &cobra.Command{
		Use: "jobs [-u USER] [--json] [JOB...]", Short: "List the jobs on this host, or print a job's time left",
		Args: nArgs(0, -1),
		Long: `List the live jobs on this host. Root sees all jobs, other users see their own.
JOB is a job's id or its beginning up to a dot (12 for 12.server), or the job's
name.

  LEFT     the time until the job's walltime runs out; "-" if it has no limit
  CPULIST  its cpus
  MEM      its current memory on this host, anonymous and shared
  LIMIT    its limit of that memory on this host
  OOM      how many of its processes the kernel killed because memory ran out
  HOSTS    the number of its hosts
  RANKS    its MPI ranks that were seen

If a job has several hosts, its part on this host is listed.

--mine is for programs inside a job. It prints how many seconds that job may
still run: a whole number, rounded down, or "unlimited". Time in which the job
is suspended does not count. Outside a job, --mine fails. Without a daemon,
both forms fail.`,
		Example: `  # A job script that works until five minutes are left, then saves its state
  while left=$(hookhost jobs --mine) &&
      { [ "$left" = unlimited ] || [ "$left" -gt 300 ]; }; do
      ./work --one-step || exit
  done
  ./work --save`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := noEmpty(cmd, args); err != nil {
				return err
			}
			if mine && (len(args) > 0 || user != "") {
				return misuse(errors.New("jobs --mine: takes no JOB and no USER"))
			}
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
			if jobs, err = chosenJobs(jobs, user, args); err != nil {
				return fmt.Errorf("jobs: %w", err)
			}
			sort.Slice(jobs, func(i, j int) bool { return jobs[i].Begun.Before(jobs[j].Begun) })
			now, err := client.Present(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"jobs": withUses(jobs, now.Jobs)})
			}
			return writeJobs(cmd.OutOrStdout(), jobs, now.Jobs)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVarP(&user, "user", "u", "", "jobs of this `USER`, by name or number")
	cmd.Flags().BoolVar(&mine, "mine", false, "print the seconds left of the calling job; with --json the job itself")
	return cmd
}

// chosenJobs returns the jobs of a user, or of all for "", that the arguments name. It fails if an
// argument names none.
func chosenJobs(jobs []api.Job, user string, names []string) ([]api.Job, error) {
	found := make([]bool, len(names))
	chosen := slices.DeleteFunc(jobs, func(j api.Job) bool {
		ofUser := user == "" || j.Job.Owner.User == user || strconv.Itoa(j.Job.Owner.UID) == user
		named := len(names) == 0
		for i, name := range names {
			if pbs.NamesJob(name, j.Job.ID) || strings.EqualFold(name, j.Job.Name) {
				found[i], named = true, true
			}
		}
		return !ofUser || !named
	})
	if i := slices.Index(found, false); i >= 0 {
		return nil, fmt.Errorf("job %s: not on this host, or it has ended: see 'hookhost report %[1]s'", names[i])
	}
	return chosen, nil
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
		err = fmt.Errorf("process %d is not in a job of this user", os.Getpid())
	}
	return j, err
}
