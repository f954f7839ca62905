package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/report"
)

// maxRecord bounds a line of an accounting file in bytes. A job of 10,000 hosts has some 3 MB.
const maxRecord = 16 << 20

// mostForeign is the number of lines after which a file without a record is none of PBS's.
const mostForeign = 1000

// reportAccounting writes the reports of the jobs in PBS's accounting files: of some jobs, or a
// list.
func reportAccounting(cmd *cobra.Command, files []string, o *reportOptions, out *output) error {
	find := accountingReports(cmd.InOrStdin(), files)
	if len(o.ids) == 0 {
		return reportList(o, out, find)
	}
	if len(o.ids) == 1 && pbs.IsArray(o.ids[0]) {
		return o.summarize(o.ids[0], out, find)
	}
	f, err := o.formatOf(true)
	if err != nil {
		return err
	}
	found := map[string]bool{}
	var failed error
	reports := iter.Seq[*report.Report](func(yield func(*report.Report) bool) {
		failed = find(report.Filter{}, func(r *report.Report) bool {
			i := slices.IndexFunc(o.ids, func(id string) bool {
				if hostapi.CheckJobID(id) != nil {
					return strings.EqualFold(id, r.Name)
				}
				return pbs.NamesJob(id, r.Job)
			})
			if i < 0 {
				return true
			}
			found[o.ids[i]] = true
			return yield(r)
		})
	})
	begun, stop, some := begin(reports)
	defer stop()
	if some {
		err = f(out, begun)
	}
	errs := []error{err, failed}
	for _, id := range o.ids {
		if !found[id] && failed == nil && err == nil {
			errs = append(errs, fmt.Errorf("job %s: no record of its end in these files", id))
		}
	}
	return errors.Join(errs...)
}

// accountingReports returns the function that finds reports in accounting files, in their order. A
// file that cannot be read does not affect the others.
func accountingReports(stdin io.Reader, files []string) findFunc {
	return func(f report.Filter, yield func(*report.Report) bool) error {
		var newest []*report.Report
		next := yield
		if f.Limit > 0 {
			next = func(r *report.Report) bool {
				if newest = append(newest, r); len(newest) > 2*f.Limit {
					newest = slices.Clone(newest[len(newest)-f.Limit:])
				}
				return true
			}
		}
		var errs []error
		for _, name := range files {
			more, err := readAccounting(stdin, name, func(s *pbs.JobStatus) bool {
				r := report.FromPBS(s)
				return !f.Matches(r) || next(r)
			})
			errs = append(errs, err)
			if !more {
				break
			}
		}
		for i := len(newest) - 1; i >= max(0, len(newest)-f.Limit) && yield(newest[i]); i-- {
		}
		return errors.Join(errs...)
	}
}

// readAccounting calls yield with each run of a job in a file. more is false after yield has
// returned false.
func readAccounting(stdin io.Reader, name string, yield func(*pbs.JobStatus) bool) (more bool, err error) {
	in, err := openPacked(stdin, name)
	if err != nil {
		return true, err
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxRecord)
	records, foreign := false, 0
	for lines.Scan() {
		if records = records || pbs.IsRecord(lines.Text()); !records {
			if foreign++; foreign == mostForeign {
				break
			}
			continue
		}
		if s, ok := pbs.ParseRun(lines.Text()); ok && !yield(&s) {
			return false, nil
		}
	}
	if err := lines.Err(); err != nil {
		return true, fmt.Errorf("read %s: %w", name, err)
	}
	if foreign > 0 && !records {
		return true, fmt.Errorf("%s: line 1 is not a record of PBS's accounting", name)
	}
	return true, nil
}
