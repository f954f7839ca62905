package top

import (
	"slices"
	"strconv"
)

// list is a sorted table of which one row is selected. The selection stays with its row, wherever
// the row goes.
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

// set takes new rows, which become the list's.
func (l *list[T]) set(rows []T) {
	l.rows = rows
	l.sort()
}

// sort sorts anew and follows the selected row. If the row is gone, its place is selected.
func (l *list[T]) sort() {
	arrange(l.rows, l.columns, l.order, l.key)
	if i := slices.IndexFunc(l.rows, func(r T) bool { return l.key(&r) == l.selected }); i >= 0 {
		l.at = i
	}
	l.move(0)
}

// move selects the row that many rows further down.
func (l *list[T]) move(by int) {
	l.at = max(min(l.at+by, len(l.rows)-1), 0)
	if l.at < len(l.rows) {
		l.selected = l.key(&l.rows[l.at])
	}
}

// page returns which rows are shown where there is room for n, the selected one among them.
func (l *list[T]) page(n int) (from, to int) {
	n = max(n, 1)
	from = max(min(l.top, l.at, len(l.rows)-n), l.at-n+1, 0)
	return from, min(from+n, len(l.rows))
}

// scroll has the list begin where page begins.
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
