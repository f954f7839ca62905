package report

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
)

// A Format writes any number of reports: as one document where the format has such a thing, else
// one after the other.
type Format func(w io.Writer, reports iter.Seq[*Report]) error

// formats holds every format by the name that --format takes.
var formats = map[string]Format{
	"csv":  WriteCSV,
	"html": writeHTML,                          // of several reports a table
	"json": one((*Report).WriteJSON, ""),       // one object a line
	"pbs":  one((*Report).WriteAccounting, ""), // one record a line
	"text": one((*Report).WriteText, "\n"),
}

// FormatNamed returns the format of that name. FormatNamed fails when there is none, naming those
// there are.
func FormatNamed(name string) (Format, error) {
	f, ok := formats[name]
	if !ok {
		return nil, fmt.Errorf("format %q: not one of %s", name, strings.Join(FormatNames(), ", "))
	}
	return f, nil
}

// FormatNames returns the names of all formats in alphabetical order.
func FormatNames() []string { return slices.Sorted(maps.Keys(formats)) }

// one makes a format out of a function that writes one report.
func one(write func(*Report, io.Writer) error, between string) Format {
	return func(w io.Writer, reports iter.Seq[*Report]) error {
		sep := ""
		for r := range reports {
			if _, err := io.WriteString(w, sep); err != nil {
				return err
			}
			if err := write(r, w); err != nil {
				return err
			}
			sep = between
		}
		return nil
	}
}
