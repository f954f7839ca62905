package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the templates and their style sheet
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"iter"
	"slices"
	"sync"
	"time"
)

//go:embed document.html
var documentText string

// styleSheet is the only style sheet of a document. The document's policy contains its hash.
//
//go:embed document.css
var styleSheet string

// documents returns the templates. Most commands need none, so they are parsed on their first use.
var documents = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("document").Parse(documentText))
})

// HTML writes reports for a browser. A document is self-contained: it runs no script and loads
// nothing from the network. The zero value writes documents without links.
type HTML struct {
	Links   []Link // to other pages, above the document
	JobPath string // prefix of a job's id in the link to its report; "" means no link

	// These are beside the links.
	Search string    // where the form that searches for a job goes; "" means no form
	Query  string    // what was searched for
	Node   string    // the host whose jobs these are
	AsOf   time.Time // when the figures were read; zero means that they do not change

	Refresh time.Duration // after which the browser loads the page again; 0 means never
	Switch  Link          // starts or stops that; no URL means that there is no link

	// These apply to a table; Title and Remark also apply to a message.
	Title        string
	Fields       []Field // filters of the table
	Newer, Older string  // links to other parts of the table; "" means none
	Remark       string  // text below the table
}

// RefreshSeconds returns Refresh for the browser.
func (h HTML) RefreshSeconds() int { return int(h.Refresh.Seconds()) }

// AsOfText returns the time of day of AsOf.
func (h HTML) AsOfText() string { return h.AsOf.Format("15:04:05") }

// Link is a link to another page.
type Link struct {
	Text, URL string
	Here      bool // the page is this one
}

// Field is a field of a form.
type Field struct {
	Name, Label, Value string
	Choices            []Choice // none for a field to write in
}

// Choice is a value that a field can have, with its text for people.
type Choice struct{ Value, Text string }

// documentPage is the data of the templates in document.html.
type documentPage struct {
	HTML
	Title  string
	Policy string
	Style  template.CSS

	Report *reportDocument // nil in a table
	Row    *tableRow       // nil outside of a row
}

func (h HTML) page(title string) documentPage {
	form := "'none'"
	if len(h.Fields) > 0 || h.Search != "" {
		form = "'self'"
	}
	if h.Node != "" {
		title += " - " + h.Node
	}
	sum := sha256.Sum256([]byte(styleSheet))
	return documentPage{
		HTML: h, Title: title, Style: template.CSS(styleSheet),
		Policy: "default-src 'none'; base-uri 'none'; form-action " + form + "; style-src 'sha256-" +
			base64.StdEncoding.EncodeToString(sum[:]) + "'",
	}
}

// reportDocument is the document of one report.
type reportDocument struct {
	Heading, Job, Owner, Queue string
	State                      string
	Reasons                    []string
	Bad                        bool
	Advice                     []Advice
	Rows                       []documentRow
	Pictures                   []picture
	Spread                     string // what the lines are if there are many hosts
	Notes, Kernel              []string
}

// WriteReport writes the document of one report.
func (h HTML) WriteReport(w io.Writer, r *Report) error {
	name := printable(cmp.Or(r.Name, r.Job))
	page := h.page(name + ", job " + printable(r.Job))
	page.Report = r.document(name)
	return execute(w, "report", page)
}

func (r *Report) document(heading string) *reportDocument {
	var facts documentSheet
	r.writeMessages(&facts)
	r.writeFacts(&facts)
	outcome := r.Outcome
	notes, kernel := r.remarks()
	var reasons []string
	if outcome.Reason != "" {
		reasons = []string{printable(outcome.Reason)}
	}
	d := &reportDocument{
		Heading: heading, Job: printable(r.Job), Owner: printable(r.Owner),
		State: printable(outcome.Words), Reasons: reasons, Bad: r.bad(), Advice: printableAdvice(r.Advice),
		Rows: facts.rows, Notes: printables(notes), Kernel: printables(kernel),
	}
	if r.PBSJob != nil {
		d.Queue = printable(r.PBSJob.Queue)
	}
	charts := r.charts()
	from, to := r.chartSpan(charts)
	for _, c := range charts {
		d.Pictures = append(d.Pictures, c.draw(from, to))
	}
	if n := len(r.withSeries()); n > mostLines {
		d.Spread = fmt.Sprintf("The lines are the greatest, the median and the least of %d hosts at each time.", n)
	} else if hosts := r.someHosts(); hosts != "" {
		d.Spread = fmt.Sprintf("The plots are of %s alone. On the other hosts, hookhost report %s shows theirs.", hosts,
			printable(r.Job))
	}
	return d
}

// WriteMessage writes a document with one message instead of a report.
func (h HTML) WriteMessage(w io.Writer) error {
	h.Remark = printable(h.Remark)
	return execute(w, "message", h.page(h.Title))
}

// bad reports whether a job did not start, did not end well or ran out of memory.
func (r *Report) bad() bool {
	return r.NotStarted || r.ExitStatus != nil && *r.ExitStatus != 0 || r.totals().oomKills > 0
}

func printables(texts []string) []string {
	var list []string
	for _, text := range texts {
		list = append(list, printable(text))
	}
	return list
}

func printableAdvice(list []Advice) []Advice {
	list = slices.Clone(list)
	for i := range list {
		a := &list[i]
		a.Try, a.Text, a.Link = printable(a.Try), printable(a.Text), printable(a.Link)
	}
	return list
}

// execute writes in one call, so that a reader gets either a complete part or nothing.
func execute(w io.Writer, name string, page documentPage) error {
	var b bytes.Buffer
	if err := documents().ExecuteTemplate(&b, name, page); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// writeHTML is the format html: the document of one report, or a table of several.
func writeHTML(w io.Writer, reports iter.Seq[*Report]) error {
	next, stop := iter.Pull(reports)
	defer stop()
	first, some := next()
	second, several := next()
	if some && !several {
		return HTML{}.WriteReport(w, first)
	}
	return HTML{Title: "Jobs"}.WriteTable(w, func(yield func(*Report) bool) {
		more := some && yield(first) && several && yield(second)
		for more {
			r, ok := next()
			more = ok && yield(r)
		}
	})
}
