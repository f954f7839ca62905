package report

import (
	"math"
	"strconv"
	"strings"
)

// unit is how the values of a chart are formatted, and where its axis ends.
type unit struct {
	text func(v float64) string
	top  func(most float64) float64 // at least most, and even when halved
}

var (
	cpus      = unit{func(v float64) string { return trimmed(v, 1) }, atLeast(1)}
	number    = unit{func(v float64) string { return trimmed(v, 0) }, roundEven}
	watts     = unit{func(v float64) string { return trimmed(v, 0) + " W" }, roundEven}
	byteCount = unit{size[float64], roundBinary}
	byteRate  = unit{func(v float64) string { return size(v) + "/s" }, roundBinary}
	share     = unit{func(v float64) string { return trimmed(100*v, 1) + "%" }, atLeast(0.01)}
	percent   = unit{func(v float64) string { return trimmed(v, 0) + "%" }, atLeast(100)}
)

// atLeast makes the axis end at least this far, so that half of it is also a number.
func atLeast(least float64) func(most float64) float64 {
	return func(most float64) float64 { return max(least, roundDecimal(most)) }
}

// roundEven is roundDecimal for whole numbers whose half is whole, too.
func roundEven(v float64) float64 {
	if top := roundDecimal(v); top != 5 {
		return max(2, top)
	}
	return 6
}

// trimmed formats v without trailing zeros.
func trimmed(v float64, digits int) string {
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if digits > 0 {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// roundDecimal returns the next of 1, 2, 4, 5, 8 and 10 times a power of ten.
func roundDecimal(v float64) float64 {
	if !(v > 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 4, 5, 8} {
		if v <= step*power {
			return step * power
		}
	}
	return 10 * power
}

// roundBinary returns the next of 1 and 1.5 times a power of two.
func roundBinary(v float64) float64 {
	if !(v > 1) {
		return 1
	}
	power := math.Exp2(math.Floor(math.Log2(v)))
	for _, step := range []float64{1, 1.5} {
		if v <= step*power {
			return step * power
		}
	}
	return 2 * power
}
