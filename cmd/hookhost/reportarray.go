package main

import (
	"cmp"
	"errors"
	"fmt"
	"iter"

	"github.com/hookhost/hookhost/internal/report"
)

// reportArray writes the summary of a job array.
func reportArray(id string, o *reportOptions, out *output, find findFunc) error {
	var failed error
	begun, stop, some := begin(iter.Seq[*report.Report](func(yield func(*report.Report) bool) {
		failed = find(report.Filter{Array: id, States: []string{"running", "finished"}}, yield)
	}))
	defer stop()
	if !some {
		return cmp.Or(failed, fmt.Errorf("job array %s: no report of a subjob found", id))
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
