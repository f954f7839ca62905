package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/reports"
)

// tableRows is the default number of jobs in a table.
const tableRows = 20

// listOptions holds the flags of report for many jobs.
type listOptions struct {
	filter       report.Filter
	list         report.List
	since, until string
}

func (o *listOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.filter.User, "user", "u", "", "jobs of this `USER`, by name or number")
	f.StringVarP(&o.filter.Name, "name", "N", "", "jobs of this `NAME`")
	f.StringVar(&o.since, "since", "", "jobs that ended at this `TIME` or later, or still run")
	f.StringVar(&o.until, "until", "", "jobs that ended before this `TIME`")
	f.StringSliceVar(&o.filter.States, "state", nil, "jobs in any of these states: `STATE,...`")
	f.StringVar(&o.filter.Host, "host", "", "jobs that run or ran on this `HOST`")
	f.IntVar(&o.list.Limit, "limit", 0, "the newest `N` jobs, 0 for all")
	f.StringVar(&o.list.Sort, "sort", "", "sort table or csv by this `COLUMN`")
	f.StringSliceVar(&o.list.Columns, "columns", nil, "`COLUMN,...` of table or csv, in this order")
}

// check completes the options for a list, or for JOBs, and returns the errors in them.
func (o *listOptions) check(cmd *cobra.Command, format string, jobs bool) error {
	f := cmd.Flags()
	if jobs {
		for _, name := range []string{"user", "name", "since", "until", "state", "host", "limit"} {
			if f.Changed(name) {
				return fmt.Errorf("--%s: selects among all jobs, so it cannot be used with a JOB or FILE", name)
			}
		}
	}
	table := format == "csv" || format == "text" && !jobs
	for _, name := range []string{"sort", "columns"} {
		if f.Changed(name) && !table {
			return fmt.Errorf("--%s: only for a table without JOB or FILE, and for --format csv", name)
		}
	}
	now := time.Now()
	for _, t := range []struct {
		flag, text string
		to         *time.Time
	}{{"since", o.since, &o.filter.Since}, {"until", o.until, &o.filter.Until}} {
		if !f.Changed(t.flag) {
			continue
		}
		var err error
		if *t.to, err = report.ParseTime(t.text, now); err != nil {
			return fmt.Errorf("--%s: %w", t.flag, err)
		}
	}
	for i, state := range o.filter.States {
		o.filter.States[i] = strings.ToLower(state)
	}
	switch {
	case o.list.Limit < 0:
		return fmt.Errorf("--limit: %d is negative", o.list.Limit)
	case format == "text" && !f.Changed("limit"):
		o.list.Limit = tableRows
	}
	if table && len(o.filter.States) == 0 {
		o.filter.States = []string{"running", "finished"}
	}
	return errors.Join(o.filter.Check(), o.list.Check())
}

// findFunc calls yield with the report of each job that the filter selects, until yield returns
// false. With a limit, reports come newest first, otherwise oldest first.
type findFunc func(f report.Filter, yield func(*report.Report) bool) error

// reportList writes the reports that the options select.
func reportList(o *reportOptions, out *output, find findFunc) error {
	f, err := o.formatOf(false)
	if err != nil {
		return err
	}
	filter, table := o.filter, o.format == "text"
	if o.list.Sort == "" {
		filter.Limit = o.list.Limit
	}
	if table && filter.Limit > 0 {
		filter.Limit++ // shows whether there are more
	}
	var failed error
	reports := iter.Seq[*report.Report](func(yield func(*report.Report) bool) { failed = find(filter, yield) })
	if filter.Limit > 0 && !table {
		newest := slices.Collect(reports)
		slices.Reverse(newest)
		reports = slices.Values(newest)
	}
	begun, stop, some := begin(reports)
	defer stop()
	if !some && failed != nil {
		return failed
	}
	err = f(out, begun)
	return errors.Join(failed, err)
}

// foundReports returns the function that finds the reports of this host.
func (c *cli) foundReports(ctx context.Context) findFunc {
	return func(f report.Filter, yield func(*report.Report) bool) error {
		var unread []error
		live, err := c.findReports(ctx, f, func(text json.RawMessage) bool {
			r, err := report.FromArchive(text)
			if err != nil {
				unread = append(unread, err)
				return true
			}
			return yield(r)
		})
		if f.Live() && !live && err == nil {
			const text = "hookhost: report: %v: running jobs are not listed (systemctl start hookhost)\n"
			fmt.Fprintf(stderr, text, api.ErrNoHost)
		}
		return errors.Join(append(unread, err)...)
	}
}

// findReports asks the daemon, which knows the live jobs. If none runs, root reads the files, and
// live is false.
func (c *cli) findReports(
	ctx context.Context, f report.Filter, yield func(json.RawMessage) bool,
) (live bool, err error) {
	client, err := api.Dial(c.Socket)
	if err == nil {
		defer client.Close()
		err = client.Reports(ctx, f, yield)
	} else if os.Geteuid() != 0 {
		const text = "report: name a JOB by its id (qstat -x lists yours): a list of jobs needs a daemon here: %w"
		return false, fmt.Errorf(text, err)
	}
	live = !errors.Is(err, api.ErrNoHost)
	switch {
	case os.Geteuid() == 0 && errors.Is(err, api.ErrSilent): // before the first report
		fmt.Fprintf(stderr, "hookhost: report: %v; only finished jobs are shown\n", err)
	case live:
		return true, err
	}
	if !f.Finished() {
		return live, nil
	}
	return live, c.OpenReports(nil, nil).All(ctx, reports.Query{Filter: f, May: everybody}, yield)
}
