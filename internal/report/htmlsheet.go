package report

import (
	"fmt"
	"strconv"
)

// documentSheet collects the contents of a report as rows of a document.
type documentSheet struct{ rows []documentRow }

// documentRow is a label with its contents.
type documentRow struct {
	Label    string
	Texts    []string
	Messages []string
	Bars     []documentBar
}

// documentBar is a bar with its name and its figures. The width is in percent, and "" if the part
// is unknown.
type documentBar struct {
	Name, Width, Percent, Amount string
	Each                         bool // a part of the total that the previous bar shows
	Red                          bool
}

// row returns the row of a label. Without a label it returns the previous row.
func (s *documentSheet) row(label string) *documentRow {
	if label != "" || len(s.rows) == 0 {
		s.rows = append(s.rows, documentRow{Label: label})
	}
	return &s.rows[len(s.rows)-1]
}

func (s *documentSheet) line(label, format string, args ...any) {
	row := s.row(label)
	row.Texts = append(row.Texts, printable(fmt.Sprintf(format, args...)))
}

func (s *documentSheet) whole(label, text string) {
	row := s.row(label)
	row.Messages = append(row.Messages, printable(text))
}

func (s *documentSheet) bars(label string, all *bar, each []bar) {
	row := s.row(label)
	if all == nil {
		all = &bar{}
	}
	row.Bars = append(row.Bars, newDocumentBar(label, *all))
	shown := outstanding(each)
	for i, b := range each {
		if shown[i] {
			d := newDocumentBar(b.name, b)
			d.Each = true
			row.Bars = append(row.Bars, d)
		}
	}
	if rest := len(each) - len(shown); rest > 0 {
		row.Texts = append(row.Texts, strconv.Itoa(rest)+" more"+between(each, shown))
	}
}

func newDocumentBar(name string, b bar) documentBar {
	d := documentBar{Name: printable(name), Amount: printable(b.amount), Red: b.isRed()}
	if b.part != nil {
		d.Width = coordinate(100 * min(max(*b.part, 0), 1))
		d.Percent = fmt.Sprintf("%.0f%%", 100**b.part)
	}
	return d
}
