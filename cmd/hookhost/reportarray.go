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

// reportArray writes the summary of a job array: of the subjobs that this host knows, else of those
// that PBS knows.
func (c *cli) reportArray(cmd *cobra.Command, id string, o *reportOptions, out *output) error {
	ctx := cmd.Context()
	if o.pbs {
		return o.summarize(id, out, c.subjobsFromPBS(ctx, id))
	}
	err := o.summarize(id, out, c.foundReports(ctx))
	if !errors.Is(err, api.ErrNotFound) && !errors.Is(err, api.ErrNoHost) {
		return err
	}
	return askedInstead(id, err, o.summarize(id, out, c.subjobsFromPBS(ctx, id)))
}

// subjobsFromPBS returns the function that finds the subjobs of an array which PBS knows.
func (c *cli) subjobsFromPBS(ctx context.Context, array string) findFunc {
	return func(f report.Filter, yield func(*report.Report) bool) error {
		program, err := qstat.Find(c.pbsConf)
		if err != nil {
			return err
		}
		jobs, err := program.Subjobs(ctx, array)
		if err != nil {
			return err
		}
		for i := range jobs {
			if r := report.FromPBS(&jobs[i]); f.Matches(r) && !yield(r) {
				return nil
			}
		}
		return nil
	}
}

// summarize writes the summary of the subjobs that find finds. It fails with ErrNotFound if there
// is none.
func (o *reportOptions) summarize(id string, out *output, find findFunc) error {
	var failed error
	begun, stop, some := begin(iter.Seq[*report.Report](func(yield func(*report.Report) bool) {
		failed = find(report.Filter{Array: id, States: []string{"running", "finished"}}, yield)
	}))
	defer stop()
	if !some {
		return cmp.Or(failed, fmt.Errorf("job array %s: %w", id, api.ErrNotFound))
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
		return fmt.Errorf("job array %s: no report of a subjob found", id)
	case o.format == "html":
		return report.HTML{}.WriteArray(out, a)
	}
	return a.WriteText(out, columnsOf(o.terminal()))
}
