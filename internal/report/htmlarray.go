package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// mostSubjobs is how many subjobs a document lists.
const mostSubjobs = 100

// WriteArray writes the document of a job array: the summary, and a table of the subjobs that did
// not complete.
func (h HTML) WriteArray(w io.Writer, a *Array) error {
	first, outcomes := a.subjobs[0], a.outcomes()
	name := printable(cmp.Or(first.Name, a.id))
	var facts documentSheet
	a.writeFacts(&facts)
	page := h.page(name + ", job array " + printable(a.id))
	page.Report = &reportDocument{
		Heading: name, Job: "array " + printable(a.id), Owner: printable(first.Owner), State: printable(outcomes[0]),
		Reasons: printables(outcomes[1:]), Bad: slices.ContainsFunc(a.subjobs, (*Report).bad),
		Advice: printableAdvice(a.advice()), Rows: facts.rows,
	}
	if first.PBSJob != nil {
		page.Report.Queue = printable(first.PBSJob.Queue)
	}
	if err := execute(w, "array", page); err != nil {
		return err
	}
	subjobs := slices.DeleteFunc(slices.Clone(a.subjobs), func(r *Report) bool { return r.Outcome.State == stateOK })
	if more := len(subjobs) - mostSubjobs; more > 0 {
		subjobs, page.Remark = subjobs[:mostSubjobs], fmt.Sprintf("%d more", more)
	} else if len(subjobs) == 0 {
		page.Remark = "None."
	}
	for _, r := range subjobs {
		page.Row = h.row(r)
		if err := execute(w, "row", page); err != nil {
			return err
		}
	}
	page.Row = nil
	return execute(w, "tableend", page)
}
