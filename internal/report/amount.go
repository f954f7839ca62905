package report

import (
	"fmt"
	"time"

	"github.com/hookhost/hookhost/internal/pbs"
)

// clock formats d as PBS does. Below a minute it uses fractions of seconds, because whole ones say
// little.
func clock(d time.Duration) string {
	if d > 0 && d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return pbs.FormatDuration(d.Truncate(time.Second))
}

// size formats bytes.
func size[T int64 | float64](bytes T) string { return pbs.Size(bytes).Text() }

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// wereOrWas is the verb after a number of things.
func wereOrWas(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func joules(j float64) string {
	switch {
	case j >= 10e6:
		return fmt.Sprintf("%.1f MJ", j/1e6)
	case j >= 1e3:
		return fmt.Sprintf("%.0f kJ", j/1e3)
	}
	return fmt.Sprintf("%.0f J", j)
}

func secondsText(s float64) string { return clock(time.Duration(s * float64(time.Second))) }

// duration formats seconds as PBS does, to compare with others.
func duration(s float64) string { return pbs.FormatDuration(time.Duration(s) * time.Second) }

// cpuTime is secondsText, except that 0 is in seconds as well.
func cpuTime(s float64) string {
	if s == 0 {
		return "0.0 s"
	}
	return secondsText(s)
}
