package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/report"
)

// writeJobs writes a line for each job.
func writeJobs(w io.Writer, jobs []api.Job) error {
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
		u := usedBy(j.Hosts, hosts[0])
		name, owner := hostapi.Printable(j.Job.Name), hostapi.Printable(j.Job.Owner.User)
		row := []string{
			j.Job.ID, cmp.Or(name, "-"), cmp.Or(owner, "-"), string(j.Phase), elapsed, left, cmp.Or(u.cpus, "-"),
			size(u.mem), size(u.limit), number(u.oom), strconv.Itoa(len(hosts)), cmp.Or(report.Ranks(j.Hosts), "-"),
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// used is what a job of one or several hosts has; what no host tells is nil.
type used struct {
	cpus            string
	mem, limit, oom *int64
}

// usedBy adds up the usage of hosts. Lists of cpus have no sum: the list of the job's first host
// counts, or of the only host that has one.
func usedBy(hosts map[string]*hostapi.HostUsage, first string) (u used) {
	add := func(sum **int64, v *int64) {
		if v == nil {
			return
		}
		if *sum == nil {
			*sum = new(int64)
		}
		**sum += *v
	}
	for name, h := range hosts {
		if h == nil {
			continue
		}
		if len(hosts) == 1 || pbs.SameHost(name, first) {
			u.cpus = h.CPUs
		}
		add(&u.mem, h.MemBytes)
		add(&u.limit, h.MemLimitBytes)
		add(&u.oom, h.OOMKills)
	}
	return u
}

func number(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

// clockText writes seconds as PBS does, without a part of a second. So at least the printed time is
// left.
func clockText(seconds float64) string {
	return pbs.FormatDuration(time.Duration(seconds) * time.Second)
}

func size(bytes *int64) string {
	if bytes == nil {
		return "-"
	}
	return pbs.Size(*bytes).KB()
}
