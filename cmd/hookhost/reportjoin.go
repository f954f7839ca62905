package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/report"
)

// isFile distinguishes a FILE from a JOB by its name alone, so that a file cannot hide a job. A job
// id contains no slash, and no server is called json.
func isFile(arg string) bool {
	return arg == "-" || strings.Contains(arg, "/") || strings.HasSuffix(arg, ".json") ||
		strings.HasSuffix(arg, ".json.gz")
}

// joinReports joins the reports in the files into one and writes it.
func joinReports(cmd *cobra.Command, names []string, o *reportOptions, out *output) error {
	f, err := o.formatOf(true)
	if err != nil {
		return err
	}
	var parts []report.Part
	for _, name := range names {
		more, err := readParts(cmd.InOrStdin(), name)
		if err != nil {
			return err
		}
		parts = append(parts, more...)
	}
	if array := report.ArrayIn(parts); array != "" {
		subjobs, err := report.JoinEach(parts)
		if err != nil {
			return err
		}
		return o.writeArray(array, slices.Values(subjobs), out)
	}
	joined, err := report.Join(parts)
	if err != nil {
		return err
	}
	return f(out, slices.Values([]*report.Report{joined}))
}

func readParts(stdin io.Reader, name string) ([]report.Part, error) {
	in, err := openPacked(stdin, name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if name == "-" {
		name = "standard input"
	}
	return report.ReadParts(in, name)
}

// openPacked is openInput, and unpacks a file whose name ends in .gz.
func openPacked(stdin io.Reader, name string) (io.ReadCloser, error) {
	file, err := openInput(stdin, name)
	if err != nil || !strings.HasSuffix(name, ".gz") {
		return file, err
	}
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{unpacked, file}, nil
}
