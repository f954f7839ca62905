package report

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// distribution is how one figure is distributed over the subjobs of an array.
type distribution struct {
	label  string
	values []float64
	top    float64 // the limit of all subjobs, else a round number above the values
	limit  string  // "of 16 GiB"; "" if the subjobs' limits differ
	bins   int
	text   func(v float64) string
}

const (
	mostBins   = 8 // as many as there are bars
	binColumns = 20
)

// distributions returns those figures of which at least one subjob has one.
func (a *Array) distributions() []distribution {
	mem := distribution{label: "Memory", bins: mostBins, text: size[float64]}
	cpu := distribution{label: "CPU", bins: 5, top: 1, text: share.text}
	elapsed := distribution{label: "Elapsed", bins: mostBins, text: secondsText}
	memLimit, wallLimit := a.limits()
	for _, t := range a.figures {
		if t.mem != nil {
			mem.values = append(mem.values, float64(*t.mem))
		}
		if eff, ok := t.cpuEfficiency(); ok {
			cpu.values = append(cpu.values, eff)
		}
		if t.walltime != nil {
			elapsed.values = append(elapsed.values, t.walltime.Seconds())
		}
	}
	mem.limitTo(float64(memLimit), roundBinary)
	elapsed.limitTo(wallLimit.Seconds(), roundTime)
	return slices.DeleteFunc([]distribution{mem, cpu, elapsed}, func(d distribution) bool { return len(d.values) == 0 })
}

// limits returns the memory and the walltime that all subjobs requested; 0 if they differ.
func (a *Array) limits() (mem int64, wall time.Duration) {
	for i, t := range a.figures {
		of, time := int64(0), time.Duration(0)
		if t.memLimit != nil {
			of = *t.memLimit
		}
		if t.wallLimit != nil {
			time = *t.wallLimit
		}
		if i == 0 {
			mem, wall = of, time
		}
		if of != mem {
			mem = 0
		}
		if time != wall {
			wall = 0
		}
	}
	return mem, wall
}

// limitTo sets the end of the bins: the limit, unless it is 0 or far above all values.
func (d *distribution) limitTo(limit float64, rounded func(float64) float64) {
	if len(d.values) == 0 {
		return
	}
	most := slices.Max(d.values)
	if limit > 0 {
		d.limit = " of " + d.text(limit)
	}
	if d.top = limit; limit <= 0 || most < limit/mostBins {
		d.top = rounded(most)
	}
}

// write writes the median and the extremes, and a bar for each bin with the part of the subjobs
// that are in it. Values beyond the end are in the last bin. Equal values have no bars.
func (d distribution) write(p sheet) {
	slices.Sort(d.values)
	n := len(d.values)
	all := bar{amount: fmt.Sprintf("median %s, most %s%s", d.text(d.values[(n-1)/2]), d.text(d.values[n-1]), d.limit)}
	if least := d.text(d.values[0]); least == d.text(d.values[n-1]) {
		all.amount = least + d.limit
		if n > 1 {
			all.amount = "each " + all.amount
		}
		p.bars(d.label, &all, nil)
		return
	}
	bins := make([]int64, d.bins)
	for _, v := range d.values {
		i := int(math.Ceil(v/d.top*float64(d.bins))) - 1
		bins[min(max(i, 0), d.bins-1)]++
	}
	var each []bar
	for i, subjobs := range bins {
		part := float64(subjobs) / float64(n)
		name := "to " + d.text(d.top*float64(i+1)/float64(d.bins))
		if i == d.bins-1 && d.values[n-1] > d.top {
			name = "more"
		}
		each = append(each, bar{name: name, part: &part, amount: count(subjobs, "subjob", "subjobs")})
	}
	p.bars(d.label, &all, each)
}

// roundTime returns the next round number of seconds.
func roundTime(seconds float64) float64 {
	for _, step := range timeSteps {
		if v := float64(step); seconds <= v {
			return v
		}
	}
	return seconds
}
