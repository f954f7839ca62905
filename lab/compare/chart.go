package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	chartWidth = 760
	plotLeft   = 230 // of the axis
	plotRight  = 660 // the medians stand right of it
	rowHeight  = 26
	runOffset  = 8 // between the runs of a row
)

const chartStyle = `<style>
  text { fill: #1f2328; }
  .dim { fill: #59636e; font-size: 12px; }
  .bold { font-weight: 600; }
  .grid { stroke: #d1d9e0; }
  .run1 { fill: #0969da; stroke: #0969da; }
  .run2 { fill: #bc4c00; stroke: #bc4c00; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .dim { fill: #b1bac4; }
    .grid { stroke: #3d444d; }
    .run1 { fill: #58a6ff; stroke: #58a6ff; }
    .run2 { fill: #f0883e; stroke: #f0883e; }
  }
</style>
`

// row is a line of a chart: the values of each run. A row without values is a heading.
type row struct {
	label string
	runs  []values
}

func (p page) rows(measure string) (rows []row) {
	for _, name := range p.names(measure) {
		rows = append(rows, p.row(name, name, measure))
	}
	return rows
}

func (p page) eventRows() (rows []row) {
	for _, event := range events {
		rows = append(rows, row{label: event})
		for _, name := range p.names(event) {
			rows = append(rows, p.row(strings.TrimPrefix(name, "OpenPBS, "), name, event))
		}
	}
	return rows
}

func (p page) row(label, name, measure string) row {
	r := row{label: label}
	for _, run := range p.runs {
		r.runs = append(r.runs, run.Figures[name][measure])
	}
	return r
}

// chart is an SVG of medians, as dots, with their ranges, as lines. A logarithmic axis begins at 1.
func (p page) chart(title string, logarithmic bool, rows []row) []byte {
	most := 1.0
	for _, r := range rows {
		for _, v := range r.runs {
			if len(v) > 0 {
				most = max(most, slices.Max(v))
			}
		}
	}
	x := func(v float64) float64 {
		part := v / most
		if logarithmic {
			part = math.Log(max(v, 1)) / math.Log(most)
		}
		return plotLeft + part*(plotRight-plotLeft)
	}
	var b bytes.Buffer
	bottom := 58 + rowHeight*len(rows)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" `+
		`font-family="system-ui, sans-serif" font-size="14">`+"\n<title>%[3]s</title>\n%[4]s"+
		`<text x="10" y="22" class="bold">%[3]s</text>`+"\n",
		chartWidth, bottom+24, html.EscapeString(title), chartStyle)
	for i := range p.runs {
		fmt.Fprintf(&b, `<circle cx="%d" cy="38" r="4" class="run%d"/>`+
			`<text x="%d" y="42" class="dim">run %[2]d</text>`+"\n", plotLeft+i*70, i+1, plotLeft+i*70+9)
	}
	fmt.Fprintf(&b, `<text x="%d" y="42" class="dim">median and range</text>`+"\n", plotLeft+len(p.runs)*70)
	for _, tick := range ticks(most, logarithmic) {
		fmt.Fprintf(&b, `<path d="M%.1[1]f 52V%[2]d" class="grid"/>`+
			`<text x="%.1[1]f" y="%[3]d" text-anchor="middle" class="dim">%[4]s</text>`+"\n",
			x(tick), bottom, bottom+16, strconv.FormatFloat(tick, 'f', -1, 64))
	}
	for i, r := range rows {
		middle := 58 + rowHeight*i + rowHeight/2
		if len(r.runs) == 0 {
			fmt.Fprintf(&b, `<text x="10" y="%d" class="bold">%s</text>`+"\n", middle+5, html.EscapeString(r.label))
			continue
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n",
			plotLeft-12, middle+5, html.EscapeString(r.label))
		var medians []string
		for k, v := range r.runs {
			if len(v) == 0 {
				medians = append(medians, "–")
				continue
			}
			y := middle - runOffset/2*(len(r.runs)-1) + runOffset*k
			fmt.Fprintf(&b, `<path d="M%.1f %dH%.1f" class="run%d" stroke-width="2"/>`+
				`<circle cx="%.1f" cy="%[2]d" r="3.5" class="run%[4]d"/>`+"\n",
				x(slices.Min(v)), y, x(slices.Max(v)), k+1, x(v.median()))
			medians = append(medians, number(v.median()))
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" class="dim">%s</text>`+"\n",
			plotRight+12, middle+5, strings.Join(medians, " / "))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// ticks are the values at which the axis has a line.
func ticks(most float64, logarithmic bool) (ticks []float64) {
	if logarithmic {
		for tick := 1.0; tick <= most; tick *= 10 {
			ticks = append(ticks, tick)
		}
		return ticks
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	if most/step < 4 {
		step /= 2
	}
	for tick := 0.0; tick <= most; tick += step {
		ticks = append(ticks, tick)
	}
	return ticks
}
