package report

import (
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hookhost/hookhost/internal/condition"
)

const (
	columnGap = 2
	// Columns of text are cut down to this if the table is wider than the terminal, except a job's
	// id.
	leastText = 8
)

// Table returns the list as a table for a person, with csv's cells in readable form. Times are in
// the zone of now, and without the day if that is today.
func (l List) Table(now time.Time) Format {
	return func(w io.Writer, reports iter.Seq[*Report]) error {
		names := l.Columns
		if len(names) == 0 {
			names = tableColumns
		}
		columns, err := columnsNamed(names)
		if err != nil {
			return err
		}
		rows, all, err := l.rows(reports, columns)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			_, err := fmt.Fprintln(w, "no jobs")
			return err
		}
		if err := l.layout(columns, rows, now).writeTo(w); err != nil {
			return err
		}
		switch {
		case all == len(rows):
		case l.Sort == "": // the caller may have ended the reports after the limit
			_, err = fmt.Fprintf(w, "the newest %d: --limit 0 shows all\n", len(rows))
		default:
			_, err = fmt.Fprintf(w, "%d of %d jobs: --limit 0 shows all\n", len(rows), all)
		}
		return err
	}
}

// layout formats the head and the rows as lines.
func (l List) layout(columns []csvColumn, rows []row, now time.Time) *painting {
	lines := [][]string{make([]string, len(columns))}
	for i, column := range columns {
		lines[0][i] = headOf(column.name)
	}
	for _, r := range rows {
		line := make([]string, len(columns))
		for i, column := range columns {
			line[i] = forPeople(column.name, r.cells[i], now)
		}
		lines = append(lines, line)
	}
	widths := make([]int, len(columns))
	for i := range columns {
		for _, line := range lines {
			widths[i] = max(widths[i], utf8.RuneCountInString(line[i]))
		}
	}
	l.narrow(columns, widths)
	var p painting
	for n, line := range lines {
		before := "" // blanks before the next cell
		for i, cell := range line {
			if n := utf8.RuneCountInString(cell); n > widths[i] {
				cell = string([]rune(cell)[:widths[i]-1]) + "~"
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			style := Plain
			if n > 0 && columns[i].name == "state" && isBad(cell) {
				style = Bad
			}
			if condition.IsNumber(columns[i].name) {
				before, pad = before+pad, ""
			}
			cell = strings.TrimRight(cell, " ")
			p.WriteString(before)
			p.paint(style, cell)
			before = pad + strings.Repeat(" ", columnGap)
		}
		p.WriteByte('\n')
	}
	return &p
}

// isBad reports whether a job in that state, of the column state, has not ended well.
func isBad(state string) bool { return !slices.Contains([]string{stateRunning, stateOK, "-"}, state) }

// narrow shortens the widest columns of text until the table fits the terminal.
func (l List) narrow(columns []csvColumn, widths []int) {
	if l.Width == 0 {
		return
	}
	total := -columnGap
	for _, width := range widths {
		total += width + columnGap
	}
	for ; total > l.Width; total-- {
		widest := -1
		for i, column := range columns {
			whole := condition.IsNumber(column.name) || isTime(column.name) || column.name == "job"
			if !whole && widths[i] > leastText && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// Units at the end of csv's column names.
const (
	inSeconds = "_seconds"
	inBytes   = "_bytes"
	inPercent = "_percent"
	asPart    = "_efficiency"
)

func isTime(name string) bool { return name == "start" || name == "end" }

// headOf returns the heading of a column: "WALLTIME" for walltime_seconds, "CPU%" for
// cpu_efficiency.
func headOf(name string) string {
	for _, unit := range []string{inSeconds, inBytes} {
		name = strings.TrimSuffix(name, unit)
	}
	for _, unit := range []string{inPercent, asPart} {
		if base, is := strings.CutSuffix(name, unit); is {
			name = base + "%"
		}
	}
	return strings.ToUpper(name)
}

// forPeople returns a cell of csv in a readable form, "-" if it is unknown.
func forPeople(name, cell string, now time.Time) string {
	if cell == "" {
		return "-"
	}
	if isTime(name) {
		if at, err := time.Parse(time.RFC3339, cell); err == nil {
			return shortTime(at.In(now.Location()), now)
		}
	}
	n, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		return cell
	}
	switch {
	case strings.HasSuffix(name, inSeconds):
		return clock(time.Duration(n * float64(time.Second)))
	case strings.HasSuffix(name, inBytes):
		return size(n)
	case strings.HasSuffix(name, inPercent):
		return fmt.Sprintf("%.0f%%", n)
	case strings.HasSuffix(name, asPart):
		return fmt.Sprintf("%.0f%%", math.Floor(100*n+0.5))
	}
	return cell
}

// shortTime returns only the time of day if at is today, and omits the year if it is this year.
func shortTime(at, now time.Time) string {
	switch {
	case at.Format(time.DateOnly) == now.Format(time.DateOnly):
		return at.Format("15:04:05")
	case at.Year() == now.Year():
		return at.Format("01-02 15:04")
	}
	return at.Format(time.DateOnly)
}
