package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// bar is one line with a bar: of a job, a host or a GPU.
type bar struct {
	name   string
	part   *float64 // of what was available; nil is unknown, and has no bar
	amount string
	marked bool // highlighted, whatever its part is
	limits bool // of something that ends the job when it is used up, such as memory
}

// nearFull is the part from which such a bar is red.
const nearFull = 0.9

// isRed reports whether the bar warns. Busy cpus are no reason to.
func (b bar) isRed() bool { return b.marked || b.limits && b.part != nil && *b.part > nearFull }

const (
	mostBars  = 8 // how many of one kind are shown; of more, only the outstanding ones
	outermost = 3 // how many of the least and of the most may stand out
	farOff    = 0.1
)

// bars writes the line for all together, if there is one, and a line for each.
func (p *page) bars(label string, all *bar, each []bar) {
	if all != nil {
		p.bar(label, *all)
	} else if len(each) > 0 {
		fmt.Fprintln(p, label)
	}
	shown := outstanding(each)
	for i, b := range each {
		if shown[i] {
			p.bar("  "+printable(b.name), b)
		}
	}
	if rest := len(each) - len(shown); rest > 0 {
		fmt.Fprintf(p, "  %d more%s\n", rest, between(each, shown))
	}
}

// bar writes "n1        [||||||||||      ]  63%  3.9 of 8 cpus".
func (p *page) bar(label string, b bar) {
	if utf8.RuneCountInString(label) >= p.names {
		label = string([]rune(label)[:p.names-2]) + "~"
	}
	width := min(max(p.columns-p.names-len("[] 100%  ")-amountWidth, 10), 60)
	if b.part == nil {
		fmt.Fprintf(p, "%-*s%s\n", p.names, label, printable(b.amount))
		return
	}
	full := int(math.Round(min(max(*b.part, 0), 1) * float64(width)))
	fmt.Fprintf(p, "%-*s[%s%s] %3.0f%%  %s\n", p.names, label, strings.Repeat("|", full),
		strings.Repeat(" ", width-full), 100**b.part, printable(b.amount))
}

// outstanding returns the indices of the bars to show: all if there are few. If there are more, it
// returns the marked ones, and the least and the most if they are far from the median.
func outstanding(each []bar) map[int]bool {
	shown := map[int]bool{}
	var known []int
	for i, b := range each {
		if b.marked && len(shown) < mostBars || len(each) <= mostBars {
			shown[i] = true
		}
		if b.part != nil {
			known = append(known, i)
		}
	}
	slices.SortStableFunc(known, func(a, b int) int { return cmp.Compare(*each[a].part, *each[b].part) })
	for n, i := range known {
		middle := *each[known[len(known)/2]].part
		if (n < outermost || n >= len(known)-outermost) && math.Abs(*each[i].part-middle) >= farOff {
			shown[i] = true
		}
	}
	return shown
}

// between returns the range of the bars that are not shown.
func between(each []bar, shown map[int]bool) string {
	least, most := math.Inf(1), math.Inf(-1)
	for i, b := range each {
		if b.part != nil && !shown[i] {
			least, most = min(least, *b.part), max(most, *b.part)
		}
	}
	if least > most {
		return ", not known"
	}
	if fmt.Sprintf("%.0f", 100*least) == fmt.Sprintf("%.0f", 100*most) {
		return fmt.Sprintf(" at %.0f%%", 100*least)
	}
	return fmt.Sprintf(" between %.0f%% and %.0f%%", 100*least, 100*most)
}
