package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"sort"
	"sync"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

func (c *cli) jobsCommand() *cobra.Command {
	var asJSON, mine bool
	cmd := &cobra.Command{
		Use: "jobs [--mine] [--json]", Short: "List the jobs on this host, or tell a job its time left", Args: noArgs,
		Long: `List the jobs that live on this host: all of them for root, the caller's own for others. LEFT is the time until the job's walltime
is over ("-": nothing limits it), CPULIST which cpus a job has, MEM what it used when it was last measured ("-": not yet;
'hookhost report JOB' measures now), OOM how many of its processes the kernel killed for lack of memory, HOSTS how many hosts it has and RANKS
which MPI ranks of it were seen. Of a job that another host has begun only the part on this host is known.

--mine is for programs inside a job. It prints how many seconds the job that it is called in may still run, without those in which
it is suspended: a whole number, rounded down, or "unlimited". Outside of jobs it fails. Without a daemon no job is
recorded, and both fail.`,
		Example: `  # A job script that works until five minutes are left and then saves what it has.
  while left=$(hookhost jobs --mine) && { [ "$left" = unlimited ] || [ "$left" -gt 300 ]; }; do
      ./work --one-step || exit
  done
  ./work --save`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if mine {
				return c.jobsMine(cmd, asJSON)
			}
			if _, err := c.load(); err != nil { // --config is checked, whoever has read it
				return err
			}
			client, err := api.Dial(c.socket)
			if err != nil {
				return fmt.Errorf("jobs: %w", withoutDaemon(err))
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
			return writeJobs(cmd.OutOrStdout(), jobs)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	cmd.Flags().BoolVar(&mine, "mine", false, "the seconds left of the job that this is called in; with --json the job")
	return cmd
}

// jobsMine tells the job that it is called in. Which one that is the kernel says, by the caller's cgroup; variables of the
// environment may be another job's.
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

// mine asks the daemon, which knows its tree: no configuration is read.
func (c *cli) mine(ctx context.Context) (api.Job, error) {
	client, err := api.Dial(c.socket)
	if err != nil {
		return api.Job{}, withoutDaemon(err)
	}
	defer client.Close()
	j, err := client.Mine(ctx)
	if errors.Is(err, api.ErrNotFound) {
		err = fmt.Errorf("process %d is in no job of this user's", os.Getpid())
	}
	return j, err
}

// withoutDaemon puts ErrNoHost into words for a person.
func withoutDaemon(err error) error {
	if errors.Is(err, api.ErrNoHost) {
		return fmt.Errorf("no daemon runs: %w", err)
	}
	return err
}

// Jobs returns the jobs that live here.
func (b *backend) Jobs(ctx context.Context) ([]api.Job, error) {
	records := b.store.List()
	clock, err := bootClock()
	if err != nil {
		return nil, err
	}
	jobs, now := make([]api.Job, 0, len(records)), clock.Now()
	for _, r := range records {
		jobs = append(jobs, jobFrom(r, now))
	}
	return jobs, nil
}

// JobOf returns the job in whose cgroup a process is.
func (b *backend) JobOf(ctx context.Context, pid int) (api.Job, error) {
	id, found, err := b.tree.JobOf(pid)
	if err != nil {
		return api.Job{}, err
	}
	if !found {
		return api.Job{}, fmt.Errorf("job of process %d: %w", pid, api.ErrNotFound)
	}
	r := b.store.Get(id)
	if r == nil {
		return api.Job{}, fmt.Errorf("job %s: %w", id, api.ErrNotFound)
	}
	clock, err := bootClock()
	if err != nil {
		return api.Job{}, err
	}
	return jobFrom(r, clock.Now()), nil
}

// forgetLimits has jobs be told no time left where nobody ends them any more. Where hook walltime comes back it tells their limits anew.
func (b *backend) forgetLimits() {
	if b.cfg.Walltime.Enabled {
		return
	}
	var ids []string
	for _, r := range b.store.List() {
		if r.WalltimeLimit != nil {
			ids = append(ids, r.Job.ID)
		}
	}
	err := b.store.UpdateAll(ids, func(_ string, r *jobstate.Record) (*jobstate.Record, error) {
		if r != nil {
			r.WalltimeLimit = nil
		}
		return r, nil
	})
	if err != nil {
		b.log.Errorf("forget limits of walltime: %v", err)
	}
}

// Job returns a job that lives here. It fails with api.ErrNotFound where there is no record of it, nor a cgroup that one could be made
// from anew.
func (b *backend) Job(ctx context.Context, id string) (api.Job, error) {
	r := b.store.Get(id)
	if r == nil && b.tree != nil {
		job, err := b.tree.Job(id)
		if err == nil && job.Exists() {
			err = fmt.Errorf("job %s has a cgroup but no record", id)
		}
		if err != nil {
			return api.Job{}, err
		}
	}
	if r == nil {
		return api.Job{}, fmt.Errorf("job %s: %w", id, api.ErrNotFound)
	}
	clock, err := bootClock()
	if err != nil {
		return api.Job{}, err
	}
	return jobFrom(r, clock.Now()), nil
}

// bootClock returns the clock of this boot.
var bootClock = sync.OnceValues(func() (jobstate.Clock, error) {
	procfs, err := kernfs.Open("/proc")
	if err != nil {
		return jobstate.Clock{}, err
	}
	boot, err := proc.BootID(procfs)
	if err != nil {
		return jobstate.Clock{}, err
	}
	return jobstate.NewClock(boot)
})

func jobFrom(r *jobstate.Record, now jobstate.Moment) api.Job {
	j := api.Job{Job: r.Job, Phase: r.Phase, Begun: r.Begun, Launched: r.Launched.Wall, Suspended: r.Suspended,
		Elapsed: r.Elapsed(now).Seconds(), Left: timeLeft(r, now),
		ResourcesUsed: r.ResourcesUsed, Hosts: present(r.Hosts), Diag: r.Diag, Notes: r.Notes, Run: r.Run, Head: r.Head}
	if !r.SuspendedAt.IsZero() {
		j.Suspended += now.Sub(r.SuspendedAt)
	}
	if r.WalltimeLimit != nil {
		limit := r.WalltimeLimit.Seconds()
		j.Limit = &limit
	}
	return j
}

// timeLeft returns how many seconds a job may still run; nil when nothing limits it.
func timeLeft(r *jobstate.Record, now jobstate.Moment) *float64 {
	if r.WalltimeLimit == nil {
		return nil
	}
	left := max(*r.WalltimeLimit-r.Elapsed(now), 0).Seconds()
	return &left
}
