package pbs

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var errNotDuration = errors.New("not a duration ([[HH:]MM:]SS[.ms])")

// ParseDuration parses a duration in qsub's format: [[HH:]MM:]SS[.ms]. Each field is a whole number
// that may exceed 59, so "90:00" is an hour and a half. Digits after the third of a fraction are
// dropped. There are no days, no sign and no empty fields. ParseDuration fails on everything else
// and on durations over 292 years.
func ParseDuration(text string) (time.Duration, error) {
	d, err := parseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("duration %s: %w", Shown(text), err)
	}
	return d, nil
}

func parseDuration(text string) (time.Duration, error) {
	whole, fraction, hasFraction := strings.Cut(text, ".")
	if hasFraction && !isDigits(fraction) || strings.Count(whole, ":") > 2 {
		return 0, errNotDuration
	}
	const most = math.MaxInt64/int64(time.Second) - 1 // the fraction still fits
	var seconds int64
	for field := range strings.SplitSeq(whole, ":") {
		if !isDigits(field) {
			return 0, errNotDuration
		}
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || n > most || seconds > (most-n)/60 {
			return 0, errTooLarge
		}
		seconds = seconds*60 + n
	}
	d := time.Duration(seconds) * time.Second
	for unit := 100 * time.Millisecond; fraction != "" && unit >= time.Millisecond; unit /= 10 {
		d += time.Duration(fraction[0]-'0') * unit
		fraction = fraction[1:]
	}
	return d, nil
}

// FormatDuration returns d in PBS's format, HH:MM:SS, rounded to the nearest second. Half a second
// is rounded up, as in PBS. Hours may have more than two digits. A negative d is written as
// 00:00:00.
func FormatDuration(d time.Duration) string {
	seconds := int64(max(d, 0) / time.Second)
	if max(d, 0)%time.Second >= time.Second/2 {
		seconds++
	}
	return fmt.Sprintf("%02d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}
