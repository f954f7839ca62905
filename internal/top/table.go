package top

import (
	"cmp"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// column is a column of a table of rows T.
type column[T any] struct {
	title   string
	width   int // the least
	most    int // the column grows with its texts up to this width if there is room
	spread  int // the column may use this much of the remaining width
	right   bool
	absent  bool // the column is shown only if a row has a text in it
	leaves  int  // on short lines the column with the greatest number is removed first; 0 stays
	text    func(row *T, width int) string
	sortsBy func(row *T) *float64 // nil: by its text
	warns   func(row *T) bool     // the cell is in red
}

// fit returns the columns that fit into a line, with their widths set. Width 0 means no limit.
func fit[T any](columns []column[T], rows []T, width int) []column[T] {
	list := make([]column[T], 0, len(columns))
	for _, c := range columns {
		filled := func(row T) bool { text := c.text(&row, c.width); return text != none && text != "" }
		if !c.absent || slices.ContainsFunc(rows, filled) {
			list = append(list, c)
		}
	}
	for width > 0 && lineWidth(list) > width {
		last := slices.MaxFunc(list, func(a, b column[T]) int { return cmp.Compare(a.leaves, b.leaves) })
		if last.leaves == 0 {
			break
		}
		list = slices.DeleteFunc(list, func(c column[T]) bool { return c.leaves == last.leaves })
	}
	rest := func(most int) int {
		if width == 0 {
			return most
		}
		return max(min(width-lineWidth(list), most), 0)
	}
	for i := range list { // texts first, then bars
		widest := 0
		for j := range rows {
			widest = max(widest, ansi.StringWidth(list[i].text(&rows[j], list[i].most)))
		}
		list[i].width += rest(max(min(widest, list[i].most)-list[i].width, 0))
	}
	for i := range list {
		if width > 0 {
			list[i].width += rest(list[i].spread)
		}
	}
	return list
}

// lineWidth returns the width of a line, with a space between columns.
func lineWidth[T any](columns []column[T]) int {
	width := max(len(columns)-1, 0)
	for _, c := range columns {
		width += c.width
	}
	return width
}

// order names the column by which a table is sorted. Numbers are in descending and texts in
// ascending order, unless reversed.
type order struct {
	title    string
	reversed bool
}

// next returns the order by the next column.
func next[T any](o order, columns []column[T]) order {
	if len(columns) == 0 {
		return o
	}
	at := slices.IndexFunc(columns, func(c column[T]) bool { return c.title == o.title })
	return order{title: columns[(at+1)%len(columns)].title}
}

// arrange sorts rows. A row without a value is always last. Equal rows are sorted by key.
func arrange[T any](rows []T, columns []column[T], o order, key func(*T) string) {
	at := slices.IndexFunc(columns, func(c column[T]) bool { return c.title == o.title })
	slices.SortStableFunc(rows, func(a, b T) int {
		if at >= 0 {
			if d := compare(&a, &b, &columns[at], o.reversed); d != 0 {
				return d
			}
		}
		return cmp.Compare(key(&a), key(&b))
	})
}

func compare[T any](a, b *T, c *column[T], reversed bool) (d int) {
	if c.sortsBy == nil {
		d = cmp.Compare(c.text(a, c.width), c.text(b, c.width))
	} else {
		x, y := c.sortsBy(a), c.sortsBy(b)
		switch {
		case x == nil && y == nil:
			return 0
		case x == nil:
			return 1
		case y == nil:
			return -1
		}
		d = cmp.Compare(*y, *x)
	}
	if reversed {
		return -d
	}
	return d
}

// arrows mark the column by which a table is sorted.
type arrows struct{ down, up string }

var (
	asciiArrows   = arrows{"v", "^"}
	unicodeArrows = arrows{"↓", "↑"}
)

// heading returns the line above a table. An arrow marks the column by which the table is sorted.
// It points down if the greatest is at the top.
func heading[T any](columns []column[T], o order, a arrows) string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		title := c.title
		if title == o.title {
			arrow := a.down
			if (c.sortsBy == nil) != o.reversed {
				arrow = a.up
			}
			title += arrow
		}
		cells[i] = pad(title, c.width, c.right)
	}
	return strings.Join(cells, " ")
}

// line returns a row's line. warn colours a cell.
func line[T any](columns []column[T], row *T, warn func(string) string) string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = pad(c.text(row, c.width), c.width, c.right)
		if c.warns != nil && c.warns(row) {
			cells[i] = warn(cells[i])
		}
	}
	return strings.Join(cells, " ")
}

// pad makes a text exactly width columns wide.
func pad(text string, width int, right bool) string {
	text = ansi.Truncate(text, width, "~")
	space := strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
	if right {
		return space + text
	}
	return text + space
}
