package report

import (
	"fmt"
	"strings"
)

// Summary returns the report of a job in at most six lines of plain text, for the end of its
// standard error. A job that ran no program has none.
func (r *Report) Summary() []string {
	if r.NotStarted {
		return nil
	}
	t := r.totals()
	lines := []string{fmt.Sprintf("hookhost: job %s: %s", printable(r.Job), printable(r.Outcome.String()))}
	add := func(label, text string) {
		if text != "" {
			lines = append(lines, fmt.Sprintf("%-*s%s", labelWidth, "  "+label, printable(text)))
		}
	}
	add("Elapsed", r.elapsed(t))
	add("CPU", shortBar(t.cpuBar(), t.cpu()))
	add("Memory", shortBar(t.memBar(), t.memory()))
	switch mean, measured := r.gpuUtilization(); {
	case len(r.Advice) > 0:
		add("Advice", r.Advice[0].String())
	case len(r.Notes) > 0:
		add("Notes", r.Notes[len(r.Notes)-1])
	case measured:
		add("GPU", fmt.Sprintf("%.0f%%", mean))
	}
	add("More", "hookhost report "+r.Job)
	return lines
}

// shortBar is a bar without its graph: "59%  14.2 of 24 cpus", or the text if no part is known.
func shortBar(b *bar, text string) string {
	if b == nil || b.part == nil {
		return text
	}
	return strings.TrimRight(fmt.Sprintf("%3.0f%%  %s", 100**b.part, b.amount), " ")
}
