package report

import (
	"cmp"
	"io"
	"iter"
	"net/url"
	"time"
)

// tableRow is a job in a table.
type tableRow struct {
	URL, Job, Name, Owner string
	State, Reason         string
	Bad                   bool
	Headline              string
	Time, Elapsed         string
	CPU, Memory           documentBar
}

// WriteTable writes a document with a row for each report, in their order and as they come.
func (h HTML) WriteTable(w io.Writer, reports iter.Seq[*Report]) error {
	page := h.page(h.Title)
	if err := execute(w, "table", page); err != nil {
		return err
	}
	empty := true
	for r := range reports {
		empty, page.Row = false, h.row(r)
		if err := execute(w, "row", page); err != nil {
			return err
		}
	}
	if page.Row = nil; empty && h.Remark == "" {
		page.Remark = "No jobs."
	}
	return execute(w, "tableend", page)
}

func (h HTML) row(r *Report) *tableRow {
	t, outcome := r.totals(), r.Outcome
	row := &tableRow{
		Job: printable(r.Job), Name: printable(r.Name), Owner: printable(r.Owner), State: printable(outcome.Words),
		Reason: printable(outcome.Reason), Bad: r.bad(), Headline: printable(r.headline()),
	}
	if row.Bad && row.Headline == "" {
		row.Headline = row.Reason
	}
	if left := r.WalltimeLeft; left != nil {
		row.State += ", " + clock(time.Duration(*left*float64(time.Second))) + " left"
	}
	if h.JobPath != "" {
		row.URL = h.JobPath + url.PathEscape(r.Job)
	}
	if at := cmp.Or(r.Start, r.End); at != nil {
		row.Time = at.Format("2006-01-02 15:04")
	}
	if t.walltime != nil && !r.NotStarted {
		row.Elapsed = clock(*t.walltime)
	}
	if b := t.cpuBar(); b != nil {
		row.CPU = newDocumentBar("", *b)
	}
	if b := t.memBar(); b != nil {
		row.Memory = newDocumentBar("", *b)
	}
	return row
}
