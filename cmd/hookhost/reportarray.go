package main

import (
	"cmp"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/report"
)

// reportArray writes the summary of a job array.
func (c *cli) reportArray(cmd *cobra.Command, id string, o *reportOptions, out *output) error {
	var errs []error
	filter := report.Filter{Array: id, States: []string{"running", "finished"}}
	subjobs, stop, some := begin(c.selected(cmd.Context(), filter, func(err error) { errs = append(errs, err) }))
	defer stop()
	if !some {
		return cmp.Or(errors.Join(errs...), fmt.Errorf("job array %s: no report of a subjob found", id))
	}
	err := o.writeArray(id, subjobs, out)
	return errors.Join(append(errs, err)...)
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
