package report

import (
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/hookhost/hookhost/internal/spelling"
)

// A Format writes any number of reports: as one document if the format has documents, else one
// after the other.
type Format func(w io.Writer, reports iter.Seq[*Report]) error

// formats holds every format by its name for --format.
var formats = map[string]Format{
	"csv":  List{}.CSV(),
	"html": writeHTML,                          // for several reports a table
	"json": one((*Report).WriteJSON, ""),       // one object per line
	"pbs":  one((*Report).WriteAccounting, ""), // one record per line
	"text": one((*Report).WriteText, "\n"),
}

// FormatNamed returns the format with that name. For an unknown name, the error names the nearest
// one or lists all.
func FormatNamed(name string) (Format, error) {
	f, ok := formats[name]
	if !ok {
		return nil, spelling.Unknown("format", name, FormatNames())
	}
	return f, nil
}

// FormatNames returns the names of all formats in alphabetical order.
func FormatNames() []string { return slices.Sorted(maps.Keys(formats)) }

// one makes a format from a function that writes one report.
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
