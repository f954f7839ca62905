package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	pageColumns = 80
	labelWidth  = 10 // columns before a line's text
	nameWidth   = 26 // most columns of a host's name, blanks included
	amountWidth = 34 // columns reserved for the text after a bar
)

// Text returns the text format for a terminal with this many columns; fewer than 80 count as 80.
// With blocks, for a terminal that shows UTF-8, plots use block characters. Except for these, and
// for names that users chose, the text is ASCII. A Painter gets the outcome of a job that failed in
// the style Bad.
func Text(columns int, blocks bool) Format {
	return one(func(r *Report, w io.Writer) error { return r.writeText(w, columns, blocks) }, "\n")
}

// sheet is the medium of a report: a text or a document for a browser. The report decides on its
// contents once, whatever the medium.
type sheet interface {
	line(label, format string, args ...any)  // without a label: continues the previous line
	whole(label, text string)                // a text that people search for
	bars(label string, all *bar, each []bar) // of all together, if known, and of each
}

// page is a text that is being written.
type page struct {
	painting
	columns int
	names   int // columns before a bar
	blocks  bool
	style   Style // of the texts of lines
}

// line writes a label and a text, and wraps the text if it is too long.
func (p *page) line(label, format string, args ...any) {
	text := printable(fmt.Sprintf(format, args...))
	for i, part := range wrapped(text, p.columns-labelWidth) {
		if i > 0 {
			label = ""
		}
		fmt.Fprintf(p, "%-*s", labelWidth, label)
		p.paint(p.style, part)
		p.WriteByte('\n')
	}
}

// whole writes a text that people search for, so it is not wrapped.
func (p *page) whole(label, text string) {
	fmt.Fprintf(p, "%-*s%s\n", labelWidth, label, printable(text))
}

// wrapped splits text at blanks into parts of at most width columns. A longer word stays whole.
func wrapped(text string, width int) []string {
	var parts []string
	part := ""
	for word := range strings.SplitSeq(text, " ") {
		if part != "" && utf8.RuneCountInString(part)+1+utf8.RuneCountInString(word) > width {
			parts = append(parts, part)
			part = word
		} else if part == "" {
			part = word
		} else {
			part += " " + word
		}
	}
	return append(parts, part)
}
