package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/integrations/openpbs/qstat"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/spelling"
)

// reportOptions holds the flags of report.
type reportOptions struct {
	listOptions
	format, output string
	json           bool
	pbs            bool     // ask PBS's server, not the daemon
	accounting     bool     // the arguments are PBS's accounting files
	ids            []string // the jobs to show of those
}

func (c *cli) reportCommand() *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use: "report [JOB... | ARRAY | FILE...]", Args: nArgs(0, -1),
		Short: "Show what jobs used, live or finished",
		Long: `Show what jobs used on each of their hosts, while they run and after they have
ended. Users other than root see only their own jobs, and only from the daemon.

JOB is a job's id or its beginning up to a dot (12 for 12.server), or the job's
name. If several jobs match, the error lists them.

If the daemon here does not know JOB, or none runs here, report asks PBS's
server by qstat about a JOB's id. So it works on a login node. PBS has what the
job used on each host, but not over time. --pbs asks PBS at once: a daemon has
only its own host's part of a job on several hosts.

FILEs are joined into one report, without a daemon. They contain the output of
"report --json JOB" from each host of one job. A host's figures come from its
own file, the rest from the mother superior's. A FILE is - for standard input,
a name with a / in it, or a name that ends in .json or .json.gz. Any other
argument is a JOB. One FILE may contain several reports.

With --accounting, FILEs are the PBS server's accounting files, which may be
compressed (.gz). Their records E and R are reports: runs of jobs that ended or
were requeued. Options select jobs as without FILE, and --job shows the whole
reports of a JOB.

ARRAY is the id of a job array, such as 12[]. The formats text and html
summarize its subjobs, and the others have the report of each. PBS is asked
first, because it knows all subjobs. If it cannot be asked, subjobs are those
that ran on this host. FILEs with reports of several subjobs of one array are
summarized, too, and so is an array that --job names.

Without JOB, the text format is a table of the newest jobs, with running jobs
first. The other formats list every finished job, oldest first. csv also lists
the running jobs, at its end. Options select jobs. With --sort, numbers go from
the greatest down and text alphabetically; --sort=-COLUMN reverses the order.
--limit is applied afterwards.

States for --state, which selects jobs here (to use another state directory,
set HOOKHOST_STATE). A job may be in several:

  running      has not ended; json, html and pbs include it only if named
  finished     has ended, with any result
  ok           ended with exit status 0
  failed       ended with another exit status, or with an unknown one; on hosts
               other than the job's first, only if the status is known
  killed       ended by a signal
  oom          ended, and the kernel killed the job or some of its processes
               because memory ran out
  timeout      ended because its walltime was over
  cancelled    ended on request: qdel, qrerun, preemption
  node_failure ended because one of its hosts failed
  not_started  none of its programs ran

Times for --since and --until. Running jobs are included with --since and
excluded with --until:

` + indented(report.TimeForms) + `

Columns of table and csv, for --columns and --sort:

` + indented(strings.Join(report.ColumnNames(), " ")) + `

Exit status: 0; 1 if a report does not exist or cannot be read. Without JOB,
also 1 if some reports are damaged. The others are shown, and standard error
names the damaged files.`,
		Example: `  hookhost report 12
  for h in n1 n2; do ssh $h hookhost report --json 12; done | hookhost report -
  hookhost report '12[]'
  hookhost report -u alice --since 3d --state failed
  hookhost report --since 2026-11-01 --until 2026-12-01 --format pbs > november
  hookhost report --accounting /var/spool/pbs/server_priv/accounting/202611*
  hookhost report --since today --sort mem_bytes --columns job,owner,mem_bytes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := noEmpty(cmd, args); err != nil {
				return err
			}
			if err := o.check(cmd, args); err != nil {
				return misuse(fmt.Errorf("report: %w", err))
			}
			out := &output{path: o.output, stdout: cmd.OutOrStdout()}
			var err error
			switch {
			case o.accounting:
				err = reportAccounting(cmd, args, &o, out)
			case len(args) > 0 && isFile(args[0]):
				err = joinReports(cmd, args, &o, out)
			case len(args) > 0 && pbs.IsArray(args[0]):
				err = c.reportArray(cmd, args[0], &o, out)
			case len(args) > 0:
				err = c.reportJobs(cmd.Context(), args, &o, out)
			default:
				err = reportList(&o, out, c.foundReports(cmd.Context()))
			}
			return errors.Join(err, out.close(err))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.format, "format", "text", "`FORMAT`: "+strings.Join(report.FormatNames(), ", "))
	f.BoolVar(&o.json, "json", false, "same as --format json")
	f.StringVar(&o.output, "output", "", "write to `FILE` instead of standard output")
	f.BoolVar(&o.pbs, "pbs", false, "ask PBS about the JOBs, not the daemon")
	f.BoolVar(&o.accounting, "accounting", false, "the FILEs are PBS's accounting files")
	f.StringSliceVar(&o.ids, "job", nil, "with --accounting: show only `JOB,...`, each as a whole")
	o.listOptions.flags(cmd)
	return cmd
}

// formatOf returns the format, for JOBs or for a list.
func (o *reportOptions) formatOf(jobs bool) (report.Format, error) {
	switch {
	case o.format == "csv":
		return o.list.CSV(), nil
	case o.format == "text" && !jobs:
		list := o.list
		list.Width = columnsOf(o.terminal())
		return list.Table(time.Now()), nil
	}
	return formatNamed(o.format, o.terminal())
}

// terminal returns what may be a terminal: standard output, unless the report is written to a file.
func (o *reportOptions) terminal() io.Writer {
	if o.output != "" {
		return nil
	}
	return stdout
}

// check completes the options and returns the errors in them.
func (o *reportOptions) check(cmd *cobra.Command, jobs []string) error {
	if o.json {
		if cmd.Flags().Changed("format") && o.format != "json" {
			return fmt.Errorf("--json: --format is %s", o.format)
		}
		o.format = "json"
	}
	if _, err := report.FormatNamed(o.format); err != nil {
		return fmt.Errorf("--format: %w", err)
	}
	switch {
	case o.pbs && (o.accounting || len(jobs) == 0 || isFile(jobs[0])):
		return errors.New("--pbs: name a JOB that PBS is to be asked about")
	case o.accounting && len(jobs) == 0:
		return errors.New("--accounting: name a FILE, such as PBS_HOME/server_priv/accounting/20261128")
	case o.accounting:
		return o.listOptions.check(cmd, o.format, len(o.ids) > 0)
	case len(o.ids) > 0:
		return errors.New("--job: selects from --accounting; name the JOB without it")
	}
	for _, id := range jobs {
		if isFile(id) != isFile(jobs[0]) {
			return fmt.Errorf("%s and %s: a JOB and a FILE cannot be shown together", jobs[0], id)
		}
		if pbs.IsArray(id) && len(jobs) > 1 {
			return fmt.Errorf("%s: a job array is shown alone", id)
		}
		if err := hostapi.CheckJobID(id); o.pbs && err != nil {
			return fmt.Errorf("--pbs: %w", err)
		}
	}
	return o.listOptions.check(cmd, o.format, len(jobs) > 0)
}

// reportJobs writes the reports of some jobs. A job without a report does not affect the others.
func (c *cli) reportJobs(ctx context.Context, ids []string, o *reportOptions, out *output) error {
	f, err := o.formatOf(true)
	if err != nil {
		return err
	}
	var errs []error
	reports := iter.Seq[*report.Report](func(yield func(*report.Report) bool) {
		for _, id := range ids {
			r, err := c.reportNamed(ctx, id, o.pbs)
			if err != nil {
				errs = append(errs, err)
			} else if !yield(r) {
				return
			}
		}
	})
	begun, stop, some := begin(reports)
	defer stop()
	if !some {
		return errors.Join(errs...)
	}
	err = f(out, begun)
	return errors.Join(append([]error{err}, errs...)...)
}

// begin waits for the first of the reports. some is false if there is none: then the caller reports
// an error and writes nothing. The caller must call stop.
func begin(reports iter.Seq[*report.Report]) (begun iter.Seq[*report.Report], stop func(), some bool) {
	next, stop := iter.Pull(reports)
	first, some := next()
	return func(yield func(*report.Report) bool) {
		for r, more := first, some; more && yield(r); r, more = next() {
		}
	}, stop, some
}

// mostMeant is how many jobs an error lists if an argument means several.
const mostMeant = 8

// reportNamed returns the report of the job that an argument means. If this host does not know the
// job, or if the caller wants that, PBS's server is asked, which knows jobs by their ids.
func (c *cli) reportNamed(ctx context.Context, given string, ofPBS bool) (*report.Report, error) {
	if ofPBS {
		return c.fromPBS(ctx, given)
	}
	r, err := c.reportHere(ctx, given)
	unknown := errors.Is(err, api.ErrNotFound) || errors.Is(err, api.ErrNoHost)
	if !unknown || hostapi.CheckJobID(given) != nil {
		return r, err
	}
	r, asked := c.fromPBS(ctx, given)
	return r, askedInstead(given, err, asked)
}

// askedInstead returns the error of PBS, which was asked about a job because of an error here. A
// host without PBS has only its own.
func askedInstead(job string, here, ofPBS error) error {
	switch {
	case !errors.Is(ofPBS, qstat.ErrNone):
		return ofPBS
	case !errors.Is(here, api.ErrNoHost) || errors.Is(here, api.ErrNotFound):
		return here
	}
	const text = "job %s: %w (systemctl start hookhost), and PBS cannot be asked: %w"
	return fmt.Errorf(text, job, api.ErrNoHost, ofPBS)
}

// reportHere returns the report that this host has of the job that an argument means. The argument
// is the job's id, its beginning up to a dot, or the job's name. If several jobs match, the error
// lists them, newest first.
func (c *cli) reportHere(ctx context.Context, given string) (*report.Report, error) {
	f := report.Filter{Name: given, States: []string{"running", "finished"}, Limit: mostMeant + 1}
	missing := fmt.Errorf("job %s: %w", given, api.ErrNotFound)
	if hostapi.CheckJobID(given) == nil {
		r, err := c.reportOf(ctx, given)
		if !errors.Is(err, api.ErrNotFound) && !errors.Is(err, api.ErrNoHost) {
			return r, err
		}
		f.Name, f.Job, missing = "", given, err
	}
	var ids []string
	live, err := c.findReports(ctx, f, func(text json.RawMessage) bool {
		r, err := report.FromArchive(text)
		if err == nil && !slices.Contains(ids, r.Job) {
			ids = append(ids, r.Job)
		}
		return true
	})
	switch len(ids) {
	case 0:
		if errors.Is(err, api.ErrNoHost) {
			return nil, err
		}
		if !live {
			missing = fmt.Errorf("job %s: %w among finished jobs; %w (systemctl start hookhost)",
				given, api.ErrNotFound, api.ErrNoHost)
		}
		if err != nil {
			return nil, fmt.Errorf("%v; reports that cannot be read may hide it: %w", missing, err)
		}
		if name := c.nameLike(ctx, given); name != "" {
			return nil, fmt.Errorf("%w: did you mean %s?", missing, name)
		}
		return nil, missing
	case 1:
		return c.reportOf(ctx, ids[0])
	case mostMeant + 1:
		ids[mostMeant] = "..."
	}
	return nil, fmt.Errorf("job %s: several match, name one by its id: %s", given, strings.Join(ids, ", "))
}

// nameLike returns the name of a job among the newest here that a misspelt name may mean, or "".
func (c *cli) nameLike(ctx context.Context, given string) string {
	const newest = 1000
	var names []string
	if hostapi.CheckJobID(given) == nil {
		return "" // ids are all alike
	}
	f := report.Filter{States: []string{"running", "finished"}, Limit: newest}
	_, err := c.findReports(ctx, f, func(text json.RawMessage) bool {
		if r, err := report.FromArchive(text); err == nil {
			names = append(names, r.Name)
		}
		return true
	})
	if err != nil {
		return ""
	}
	return spelling.Nearest(given, names)
}

// reportOf asks the daemon. If none runs, root reads the report of a job that has finished here.
func (c *cli) reportOf(ctx context.Context, id string) (*report.Report, error) {
	r, err := c.fromDaemon(ctx, id)
	if errors.Is(err, api.ErrNoHost) && os.Geteuid() == 0 {
		last, err := c.OpenReports(nil, nil).Last(ctx, id, everybody)
		if err != nil {
			return nil, fmt.Errorf("report of job %s: %w", id, err)
		}
		if last != nil {
			return last, nil
		}
	}
	return r, err
}

func (c *cli) fromPBS(ctx context.Context, id string) (*report.Report, error) {
	program, err := qstat.Find(c.pbsConf)
	if err != nil {
		return nil, err
	}
	job, err := program.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	return report.FromPBS(job), nil
}

func (c *cli) fromDaemon(ctx context.Context, id string) (*report.Report, error) {
	client, err := api.Dial(c.Socket)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	text, err := client.Report(ctx, id)
	if err != nil {
		return nil, err
	}
	r, err := report.FromArchive(text)
	if err != nil {
		return nil, fmt.Errorf("report of job %s: %w", id, err)
	}
	return r, nil
}

// everybody accepts the jobs of all owners.
func everybody(int) bool { return true }
