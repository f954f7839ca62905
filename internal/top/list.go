package top

import (
	"slices"
	"strconv"
)

// list is a sorted table with one selected row. The selection follows its row.
type list[T any] struct {
	columns  []column[T]
	order    order
	key      func(*T) string
	rows     []T
	selected string // key
	at       int    // of the selected row
	top      int    // the first row that is shown
}

func pidText(r *processRow) string { return strconv.Itoa(r.pid) }

// set replaces the rows. The list owns them from then on.
func (l *list[T]) set(rows []T) {
	l.rows = rows
	l.sort()
}

// sort sorts the rows again and follows the selected one. If that is gone, the row in its place is
// selected.
func (l *list[T]) sort() {
	arrange(l.rows, l.columns, l.order, l.key)
	if i := slices.IndexFunc(l.rows, func(r T) bool { return l.key(&r) == l.selected }); i >= 0 {
		l.at = i
	}
	l.move(0)
}

// move moves the selection down by that many rows.
func (l *list[T]) move(by int) {
	l.at = max(min(l.at+by, len(l.rows)-1), 0)
	if l.at < len(l.rows) {
		l.selected = l.key(&l.rows[l.at])
	}
}

// page returns the rows to show if there is room for n, including the selected one.
func (l *list[T]) page(n int) (from, to int) {
	n = max(n, 1)
	from = max(min(l.top, l.at, len(l.rows)-n), l.at-n+1, 0)
	return from, min(from+n, len(l.rows))
}

// scroll makes the list begin at the first row of page.
func (l *list[T]) scroll(n int) { l.top, _ = l.page(n) }

// sortNext sorts by the next column that is shown.
func (l *list[T]) sortNext(width int) {
	l.order = next(l.order, fit(l.columns, l.rows, width))
	l.sort()
}

func (l *list[T]) reverse() {
	l.order.reversed = !l.order.reversed
	l.sort()
}
