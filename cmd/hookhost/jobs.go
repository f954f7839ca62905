package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/pbs"
)

func (c *cli) jobsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "jobs [--json]", Short: "List the jobs on this host", Args: noArgs,
		Long: `List the jobs that live on this host: all of them for root, the caller's own for others. CPULIST is which cpus a job has, MEM what
it used when it was last measured ("-": not yet; 'hookhost report JOB' measures now), OOM how many of its processes the kernel
killed for lack of memory.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := c.reader()
			if err != nil {
				return err
			}
			defer r.Close()
			jobs, err := r.Jobs(cmd.Context())
			if err != nil {
				return err
			}
			sort.Slice(jobs, func(i, j int) bool { return jobs[i].Begun.Before(jobs[j].Begun) })
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"jobs": jobs})
			}
			return writeJobs(cmd.OutOrStdout(), jobs, time.Now())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

func writeJobs(w io.Writer, jobs []api.Job, now time.Time) error {
	if len(jobs) == 0 {
		_, err := fmt.Fprintln(w, "no jobs")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tNAME\tOWNER\tSTATE\tELAPSED\tCPULIST\tMEM\tLIMIT\tOOM")
	for _, j := range jobs {
		elapsed := "-"
		if !j.Launched.IsZero() {
			elapsed = pbs.FormatDuration(now.Sub(j.Launched) - j.Suspended)
		}
		cpus, mem, limit, oom := "-", "-", "-", "-"
		for _, h := range j.Hosts { // one host until sisters come
			if h.CPUs != "" {
				cpus = h.CPUs
			}
			mem, limit = size(h.MemBytes), size(h.MemLimitBytes)
			if h.OOMKills != nil { // processes that the kernel killed for lack of memory
				oom = strconv.FormatInt(*h.OOMKills, 10)
			}
		}
		fmt.Fprintln(t, strings.Join([]string{j.Job.ID, printable(j.Job.Name), printable(j.Job.Owner.User), string(j.Phase), elapsed, cpus, mem, limit, oom}, "\t"))
	}
	return t.Flush()
}

func size(bytes *int64) string {
	if bytes == nil {
		return "-"
	}
	return pbs.Size(*bytes).KB()
}

// printable keeps a user's text from steering the terminal or the table.
func printable(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
