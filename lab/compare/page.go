package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

//go:embed page.md
var pageText string

// events are those of the table, in the order of a job's life.
var events = []string{"execjob_begin", "execjob_launch", "execjob_attach", "execjob_epilogue", "execjob_end",
	"exechost_periodic"}

// page has engines with their figures: the last run and the one before.
type page struct {
	engines []engine
	runs    []run
}

const (
	nodeRuns  = "comparison.json"
	guestRuns = "comparison-guest.json"
)

// files returns the page and its plots by name, from the figures in a folder.
func files(dir string) (map[string][]byte, error) {
	p, guest := page{engines: engines}, page{engines: guestEngines}
	var err error
	if p.runs, err = readRuns(filepath.Join(dir, nodeRuns)); err != nil {
		return nil, err
	}
	if guest.runs, err = readRuns(filepath.Join(dir, guestRuns)); err != nil {
		return nil, err
	}
	if len(p.runs) == 0 || len(guest.runs) == 0 {
		return nil, fmt.Errorf("write the page: %s or %s has no run: measure first, on a node and in a guest",
			nodeRuns, guestRuns)
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"events": func() []string { return events },
		"names":  p.names,
		"table":  p.table,
		"median": p.median,
		"spread": p.spread,
		"runs":   func() []run { return p.runs },

		"eventSpread": func() string { return p.spread(events...) },

		"guestTable":  guest.table,
		"guestSpread": guest.spread,
		"guestRatio":  guest.ratio,
		"guestRuns":   func() []run { return guest.runs },
	}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, nil); err != nil {
		return nil, err
	}
	return map[string][]byte{
		"comparison.md": text.Bytes(),
		"comparison-first.svg": p.chart("From the order to the first command, ms", true,
			p.rows(firstCommand)),
		"comparison-events.svg": p.chart("Life of MoM's hook process, ms", true, p.eventRows()),
		"comparison-memory.svg": p.chart("Memory of a node's services between jobs (PSS), MB", false,
			p.rows(memory)),
		"comparison-end.svg": p.chart("End of a job of 1,000 processes, ms", true, p.rows(jobEnd)),
	}, nil
}

// writePage writes the page and its plots into the folder of the figures.
func writePage(dir string) error {
	files, err := files(dir)
	if err != nil {
		return err
	}
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	return err
}

// names returns the engines that have a measure.
func (p page) names(measure string) (names []string) {
	for _, e := range p.engines {
		if len(p.runs[len(p.runs)-1].Figures[e.name][measure]) > 0 {
			names = append(names, e.name)
		}
	}
	return names
}

// table is the head and rows of a Markdown table: engines, and for each measure a column a run.
func (p page) table(heads string, measures ...string) string {
	var s strings.Builder
	s.WriteString("| |")
	for head := range strings.SplitSeq(heads, "|") {
		for i := range p.runs {
			fmt.Fprintf(&s, " %s, run %d |", head, i+1)
		}
	}
	fmt.Fprintf(&s, "\n|---|%s\n", strings.Repeat("---|", len(measures)*len(p.runs)))
	for _, name := range p.names(measures[0]) {
		fmt.Fprintf(&s, "| %s |", name)
		for _, measure := range measures {
			for _, r := range p.runs {
				fmt.Fprintf(&s, " %s |", cell(r.Figures[name][measure]))
			}
		}
		s.WriteByte('\n')
	}
	return strings.TrimSuffix(s.String(), "\n")
}

// cell is a median with the range.
func cell(v values) string {
	if len(v) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s (%s to %s)", number(v.median()), number(slices.Min(v)), number(slices.Max(v)))
}

// median is that of the last run.
func (p page) median(name, measure string) string {
	return number(p.runs[len(p.runs)-1].Figures[name][measure].median())
}

// ratio is how many times as long one engine takes as another: the quotients of all runs' medians.
func (p page) ratio(name, other, measure string) string {
	var quotients []string
	for _, r := range p.runs {
		quotient := r.Figures[name][measure].median() / r.Figures[other][measure].median()
		quotients = append(quotients, fmt.Sprintf("%.1f", quotient))
	}
	return strings.Join(slices.Compact(quotients), " and ")
}

// number has as many digits as a reader compares.
func number(v float64) string {
	if v < 10 && v != 0 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// spread returns by how many percent the medians of measures differ between two runs, at most.
func (p page) spread(measures ...string) string {
	most := 0.0
	for _, measure := range measures {
		for _, name := range p.names(measure) {
			var medians []float64
			for _, r := range p.runs {
				medians = append(medians, r.Figures[name][measure].median())
			}
			if least := slices.Min(medians); least > 0 {
				most = math.Max(most, slices.Max(medians)/least-1)
			}
		}
	}
	return fmt.Sprintf("%.0f", most*100)
}
