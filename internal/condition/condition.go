// Package condition parses and evaluates what a site compares the figures of a job's report with:
//
//	gpu_utilization_percent < 20 and walltime_seconds > 01:00:00
//
// It is a list of comparisons joined by "and", and no more: a configuration is no program.
package condition

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/pbs"
)

// Figures are the names that a condition may use: the columns of a report's csv, without its times
// and notes. Their endings say in which units they may be written.
var Figures = strings.Fields(`job name owner queue project account exit_status walltime_seconds
	walltime_requested_seconds walltime_efficiency hosts missing_hosts ncpus cput_seconds cpu_efficiency mem_bytes
	mem_limit_bytes mem_efficiency oom_kills throttled_seconds cput_imbalance gpus gpu_utilization_percent
	energy_joules billing state outcome`)

// texts are the figures that are texts. They can only be equal to a value, or not.
var texts = strings.Fields("job name owner queue project account hosts missing_hosts state outcome")

// IsNumber reports whether a name is that of a figure, and the figure a number.
func IsNumber(figure string) bool {
	return slices.Contains(Figures, figure) && !slices.Contains(texts, figure)
}

// Condition is what a report has to meet.
type Condition []comparison

type comparison struct {
	figure, operator string
	number           float64
	text             string
}

// form is a comparison with what joins it to the next one. A text in quotes may contain "and".
var form = regexp.MustCompile(`^\s*([a-z_]+)\s*(<=|>=|==|!=|<|>)\s*("[^"]*"|[^\s"]\S*)(\s+and\s|\s*$)`)

// Parse returns the condition that the text describes. The error names the part that is wrong.
func Parse(text string) (Condition, error) {
	var c Condition
	for {
		found := form.FindStringSubmatch(text)
		if found == nil {
			part, _, _ := strings.Cut(text, " and ")
			return nil, fmt.Errorf("%.80q: want FIGURE < VALUE, or with <=, >, >=, == or !=; join several by "+
				`"and"`, strings.TrimSpace(part))
		}
		one, err := parse(found)
		if err != nil {
			return nil, err
		}
		c = append(c, one)
		if strings.TrimSpace(found[4]) == "" {
			return c, nil
		}
		text = text[len(found[0]):]
	}
}

// parse reads the parts of a comparison, as form finds them.
func parse(found []string) (comparison, error) {
	c := comparison{figure: found[1], operator: found[2], text: strings.Trim(found[3], `"`)}
	if !slices.Contains(Figures, c.figure) {
		return comparison{}, fmt.Errorf("figure %q: not one of %s", c.figure, strings.Join(Figures, ", "))
	}
	if !IsNumber(c.figure) {
		if c.operator != "==" && c.operator != "!=" {
			return comparison{}, fmt.Errorf("%s %s: is a text, so want == or !=", c.figure, c.operator)
		}
		return c, nil
	}
	var err error
	if c.number, err = number(c.figure, c.text); err != nil {
		return comparison{}, fmt.Errorf("%s %s %s: %w", c.figure, c.operator, found[3], err)
	}
	return c, nil
}

// number parses a value of a figure: a number, or as people write values of its unit.
func number(figure, text string) (float64, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n, nil
	}
	percent, isPercent := strings.CutSuffix(text, "%")
	n, notNumber := strconv.ParseFloat(percent, 64)
	switch {
	case isPercent && notNumber == nil && strings.HasSuffix(figure, "_percent"):
		return n, nil
	case isPercent && notNumber == nil && strings.HasSuffix(figure, "_efficiency"):
		return n / 100, nil
	case strings.HasSuffix(figure, "_seconds"):
		if d, err := pbs.ParseDuration(text); err == nil {
			return d.Seconds(), nil
		}
		return 0, errors.New("want seconds or HH:MM:SS")
	case strings.HasSuffix(figure, "_bytes"):
		if size, err := pbs.ParseSize(text); err == nil {
			return float64(size), nil
		}
		return 0, errors.New("want bytes or a size such as 4gb")
	case strings.HasSuffix(figure, "_percent"), strings.HasSuffix(figure, "_efficiency"):
		return 0, errors.New("want a number or a percentage such as 20%")
	}
	return 0, errors.New("want a number")
}

// Holds reports whether a report meets the condition. cell returns a figure as it stands in csv, ""
// for one that is not known. An unknown figure meets nothing.
func (c Condition) Holds(cell func(figure string) string) bool {
	return !slices.ContainsFunc(c, func(one comparison) bool { return !one.holds(cell(one.figure)) })
}

func (c comparison) holds(cell string) bool {
	if cell == "" {
		return false
	}
	if !IsNumber(c.figure) {
		return (cell == c.text) == (c.operator == "==")
	}
	n, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		return false
	}
	switch c.operator {
	case "<":
		return n < c.number
	case "<=":
		return n <= c.number
	case ">":
		return n > c.number
	case ">=":
		return n >= c.number
	case "==":
		return n == c.number
	}
	return n != c.number
}
