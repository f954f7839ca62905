package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	pageColumns = 80
	labelWidth  = 10 // columns of what stands before a line's text
	nameWidth   = 26 // columns that a host's name may have at most, blanks included
	amountWidth = 34 // columns that are kept for what stands behind a bar
)

// Text returns the text format for a terminal of so many columns; fewer than 80 count as 80. blocks
// are for a terminal that shows UTF-8: plots are of block characters. Apart from these, and from
// names that users chose, the text is ASCII and without colours.
func Text(columns int, blocks bool) Format {
	return one(func(r *Report, w io.Writer) error { return r.writeText(w, columns, blocks) }, "\n")
}

// sheet is what a report is written on: a text or a document for a browser. The report decides once
// what it says, whatever it is written on.
type sheet interface {
	line(label, format string, args ...any)  // no label: one more line of the label before
	whole(label, text string)                // a text that people search for
	bars(label string, all *bar, each []bar) // of all together, if known, and of each
}

// page is a text that is being written.
type page struct {
	bytes.Buffer
	columns int
	names   int // columns before a bar
	blocks  bool
}

// line writes a label and a text, which goes on below itself where it is too long.
func (p *page) line(label, format string, args ...any) {
	text := printable(fmt.Sprintf(format, args...))
	for i, part := range wrapped(text, p.columns-labelWidth) {
		if i > 0 {
			label = ""
		}
		fmt.Fprintf(p, "%-*s%s\n", labelWidth, label, part)
	}
}

// whole writes a text that people search for, and so is not broken.
func (p *page) whole(label, text string) {
	fmt.Fprintf(p, "%-*s%s\n", labelWidth, label, printable(text))
}

// wrapped cuts text at blanks into parts of at most width columns. A longer word stays whole.
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
