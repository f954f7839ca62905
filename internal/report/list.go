package report

import (
	"cmp"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/spelling"
)

// List describes how reports are shown together, one per row.
type List struct {
	Columns []string // names of csv's columns; none means those of the format
	// Sort is the name of a column. Numbers and times are sorted from the greatest down, and text
	// in alphabetical order; "-" before the name reverses that. For a table, "" means newest first.
	Sort  string
	Limit int // largest number of rows; 0: all
	Width int // of the table; 0: as wide as needed
}

// tableColumns are the columns of a table if none are named. They fit into 80 columns.
var tableColumns = []string{"job", "name", "owner", "state", "end", "walltime_seconds", "cpu_efficiency", "mem_bytes",
	"mem_efficiency"}

// A row is one report: its csv cells, and its sort key.
type row struct {
	cells []string
	key   sortKey
}

// Check returns an error for an unknown column.
func (l List) Check() error {
	if _, err := columnsNamed(l.Columns); err != nil {
		return err
	}
	if l.Sort == "" {
		return nil
	}
	_, err := columnsNamed([]string{strings.TrimPrefix(l.Sort, "-")})
	return err
}

// CSV returns the csv format of a list. Unsorted reports are written as they come, whatever the
// limit.
func (l List) CSV() Format {
	return func(w io.Writer, reports iter.Seq[*Report]) error {
		columns, err := columnsNamed(l.Columns)
		if err != nil {
			return err
		}
		if l.Sort == "" {
			return writeCSV(w, columns, rowsOf(reports, columns))
		}
		rows, _, err := l.rows(reports, columns)
		if err != nil {
			return err
		}
		return writeCSV(w, columns, slices.Values(rows))
	}
}

// rows returns the rows of reports in order, and the number of all reports. It holds at most twice
// the limit in memory.
func (l List) rows(reports iter.Seq[*Report], columns []csvColumn) (rows []row, all int, err error) {
	sort, err := l.sorting()
	if err != nil {
		return nil, 0, err
	}
	inOrder := func(a, b row) int { return sort.compare(a.key, b.key) }
	for r := range reports {
		all++
		next := rowOf(r, columns)
		next.key = sort.keyOf(r)
		rows = append(rows, next)
		if l.Limit > 0 && len(rows)/2 >= l.Limit {
			slices.SortStableFunc(rows, inOrder)
			rows = rows[:l.Limit]
		}
	}
	slices.SortStableFunc(rows, inOrder)
	if l.Limit > 0 && len(rows) > l.Limit {
		rows = rows[:l.Limit]
	}
	return rows, all, nil
}

// rowsOf returns the rows of reports as they come.
func rowsOf(reports iter.Seq[*Report], columns []csvColumn) iter.Seq[row] {
	return func(yield func(row) bool) {
		for r := range reports {
			if !yield(rowOf(r, columns)) {
				return
			}
		}
	}
}

func rowOf(r *Report, columns []csvColumn) row {
	t := r.totals()
	cells := make([]string, len(columns))
	for i, column := range columns {
		cells[i] = column.of(r, t)
	}
	return row{cells: cells}
}

// columnsNamed returns the columns with these names, or all if there are no names.
func columnsNamed(names []string) ([]csvColumn, error) {
	if len(names) == 0 {
		return csvColumns, nil
	}
	var columns []csvColumn
	for _, name := range names {
		i := slices.IndexFunc(csvColumns, func(c csvColumn) bool { return c.name == name })
		if i < 0 {
			return nil, spelling.Unknown("column", name, ColumnNames())
		}
		columns = append(columns, csvColumns[i])
	}
	return columns, nil
}

// ColumnNames returns the names of all columns, in csv's order.
func ColumnNames() []string {
	var names []string
	for _, column := range csvColumns {
		names = append(names, column.name)
	}
	return names
}

// sorting is the order of rows: by a column, or newest first.
type sorting struct {
	column *csvColumn
	turned bool
}

// sortKey is a cell in a form for comparison: a number if it is one.
type sortKey struct {
	number float64 // NaN for text
	text   string  // "" is unknown, and comes last
}

func (l List) sorting() (sorting, error) {
	if l.Sort == "" {
		return sorting{}, nil
	}
	name, turned := strings.CutPrefix(l.Sort, "-")
	columns, err := columnsNamed([]string{name})
	if err != nil {
		return sorting{}, err
	}
	return sorting{column: &columns[0], turned: turned}, nil
}

func (s sorting) keyOf(r *Report) sortKey {
	if s.column == nil {
		return newness(r)
	}
	text := s.column.of(r, r.totals())
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return sortKey{n, text}
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return sortKey{float64(at.Unix()), text}
	}
	return sortKey{math.NaN(), text}
}

// newness is the key for newest first: jobs that have not ended, and then by their ends.
func newness(r *Report) sortKey {
	const live = 1e15 // later than every end, in milliseconds
	switch {
	case r.End != nil:
		return sortKey{float64(r.End.UnixMilli()), "ended"}
	case r.Start != nil:
		return sortKey{live + float64(r.Start.UnixMilli()), "lives"}
	}
	return sortKey{live, "lives"}
}

// compare orders numbers from the greatest down, then text in alphabetical order. An unknown cell
// always comes last.
func (s sorting) compare(a, b sortKey) int {
	if a.text == "" || b.text == "" {
		return cmp.Compare(b.text, a.text)
	}
	order := 0
	switch {
	case math.IsNaN(a.number) && math.IsNaN(b.number):
		order = cmp.Compare(a.text, b.text)
	default:
		order = cmp.Compare(b.number, a.number) // NaN is less than every number
	}
	if s.turned {
		return -order
	}
	return order
}
