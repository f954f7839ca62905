package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/integrations/openpbs/qstat"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/report"
)

// reportArray writes the summary of a job array. PBS knows all subjobs. If it cannot be asked, or
// does not have them any more, the summary is of those that ran on this host.
func (c *cli) reportArray(cmd *cobra.Command, id string, o *reportOptions, out *output) error {
	subjobs, asked := c.subjobsFromPBS(cmd.Context(), id)
	switch {
	case asked == nil:
		return o.summarize(id, out, subjobs)
	case o.pbs:
		return asked
	}
	err := o.summarize(id, out, c.foundReports(cmd.Context()))
	if errors.Is(err, errNoSubjob) || errors.Is(err, api.ErrNoHost) {
		return askedInstead(id, err, asked)
	}
	return err
}

// subjobsFromPBS returns the function that finds the subjobs of an array among those of PBS.
func (c *cli) subjobsFromPBS(ctx context.Context, array string) (findFunc, error) {
	program, err := qstat.Find(c.pbsConf)
	if err != nil {
		return nil, err
	}
	jobs, err := program.Subjobs(ctx, array)
	if err != nil {
		return nil, err
	}
	return func(f report.Filter, yield func(*report.Report) bool) error {
		for i := range jobs {
			if r := report.FromPBS(&jobs[i]); f.Matches(r) && !yield(r) {
				return nil
			}
		}
		return nil
	}, nil
}

// errNoSubjob means that no report of a subjob was found.
var errNoSubjob = errors.New("no subjob has begun here")

// summarize writes the summary of the subjobs that find finds. It fails with errNoSubjob if there
// is none.
func (o *reportOptions) summarize(id string, out *output, find findFunc) error {
	var failed error
	begun, stop, some := begin(iter.Seq[*report.Report](func(yield func(*report.Report) bool) {
		failed = find(report.Filter{Array: id, States: []string{"running", "finished"}}, yield)
	}))
	defer stop()
	if !some {
		return cmp.Or(failed, fmt.Errorf("job array %s: %w", id, errNoSubjob))
	}
	err := o.writeArray(id, begun, out)
	return errors.Join(failed, err)
}

// writeArray writes the summary of an array as a text or a document. The other formats are for
// programs, and have the report of each subjob.
func (o *reportOptions) writeArray(id string, subjobs iter.Seq[*report.Report], out *output) error {
	if o.format != "text" && o.format != "html" {
		f, err := o.formatOf(true)
		if err != nil {
			return err
		}
		return f(out, subjobs)
	}
	a, some := report.ArrayOf(id, subjobs)
	switch {
	case !some:
		return fmt.Errorf("job array %s: %w", id, errNoSubjob)
	case o.format == "html":
		return report.HTML{}.WriteArray(out, a)
	}
	return a.WriteText(out, columnsOf(o.terminal()))
}
