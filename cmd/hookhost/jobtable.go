package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/report"
)

// writeJobs writes a line for each job. present has the current usage of jobs with a cgroup.
func writeJobs(w io.Writer, jobs []api.Job, present []api.PresentJob) error {
	if len(jobs) == 0 {
		_, err := fmt.Fprintln(w, "no jobs")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tNAME\tOWNER\tSTATE\tELAPSED\tLEFT\tCPULIST\tMEM\tLIMIT\tOOM\tHOSTS\tRANKS")
	for _, j := range jobs {
		elapsed, left := "-", "-"
		if !j.Launched.IsZero() {
			elapsed = clockText(j.Elapsed)
		}
		if j.Left != nil {
			left = clockText(*j.Left)
		}
		hosts, err := pbs.Hosts(j.Job.ExecVnode, j.Job.ExecHost2)
		if err != nil || len(hosts) == 0 {
			hosts = []string{""}
		}
		cpus, oom := grantedTo(j.Hosts, hosts[0])
		now := usesOf(j, present)
		if len(hosts) == 1 {
			oom = cmp.Or(now.OOMKills, oom)
		}
		name, owner := hostapi.Printable(j.Job.Name), hostapi.Printable(j.Job.Owner.User)
		row := []string{
			j.Job.ID, cmp.Or(name, "-"), cmp.Or(owner, "-"), string(j.Phase), elapsed, left, cmp.Or(cpus, "-"),
			size(now.MemBytes), size(now.MemLimitBytes), number(oom), strconv.Itoa(len(hosts)),
			cmp.Or(report.Ranks(j.Hosts), "-"),
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// usesOf returns a job's current usage of this host, which is empty for a job without a cgroup.
func usesOf(j api.Job, present []api.PresentJob) (now api.Present) {
	if i := slices.IndexFunc(present, func(p api.PresentJob) bool { return p.ID == j.Job.ID }); i >= 0 {
		now = present[i].UsesHere
	}
	return now
}

// jobWithUses is a job as `jobs --json` prints it.
type jobWithUses struct {
	api.Job
	Uses api.Present `json:"uses,omitzero"` // now, on this host
}

func withUses(jobs []api.Job, present []api.PresentJob) []jobWithUses {
	list := make([]jobWithUses, 0, len(jobs))
	for _, j := range jobs {
		list = append(list, jobWithUses{Job: j, Uses: usesOf(j, present)})
	}
	return list
}

// grantedTo returns the job's cpus, and how many of its processes the kernel killed on all hosts,
// or nil if unknown. Lists of cpus cannot be added up. The list of the job's first host counts, or
// of the only host that has one.
func grantedTo(hosts map[string]*hostapi.HostUsage, first string) (cpus string, oom *int64) {
	for name, h := range hosts {
		if h == nil {
			continue
		}
		if len(hosts) == 1 || pbs.SameHost(name, first) {
			cpus = h.CPUs
		}
		if h.OOMKills == nil {
			continue
		}
		if oom == nil {
			oom = new(int64)
		}
		*oom += *h.OOMKills
	}
	return cpus, oom
}

func number(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

// clockText formats seconds as PBS does, rounded down. So at least the printed time is left.
func clockText(seconds float64) string {
	return pbs.FormatDuration(time.Duration(seconds) * time.Second)
}

func size(bytes *int64) string {
	if bytes == nil {
		return "-"
	}
	return pbs.Size(*bytes).Text()
}
