package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/pbs"
)

// none is shown if a figure is unknown or does not apply.
const none = "-"

// size formats bytes in at most five columns: 512K, 3.25M, 64G.
func size[T int64 | float64](bytes *T) string {
	if bytes == nil {
		return none
	}
	text := strings.TrimSuffix(pbs.Size(*bytes).Text(), "iB")
	return strings.ReplaceAll(text, " ", "")
}

// clock formats seconds in at most six columns, with the two largest units, rounded down.
func clock(seconds *float64) string {
	if seconds == nil {
		return none
	}
	d := time.Duration(*seconds) * time.Second
	days, hours := int(d/(24*time.Hour)), int(d.Hours())%24
	minutes, rest := int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case days > 99:
		return fmt.Sprintf("%dd", days)
	case days > 0:
		return fmt.Sprintf("%dd%02dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%02dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%02ds", minutes, rest)
	}
	return fmt.Sprintf("%ds", rest)
}

// cores formats the number of busy cpus.
func cores(n *float64) string {
	if n == nil {
		return none
	}
	return strconv.FormatFloat(*n, 'f', 1, 64)
}

func count(n *int64) string {
	if n == nil {
		return none
	}
	return strconv.FormatInt(*n, 10)
}

// counted formats a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// percent formats a share as a whole number without the percent sign.
func percent(share *float64) string {
	if share == nil {
		return none
	}
	return strconv.FormatFloat(*share*100, 'f', 0, 64)
}

// bar draws a share in width columns. A share above 1 is a full bar.
func bar(share *float64, width int) string {
	if share == nil || width < 3 {
		return none
	}
	inner := width - 2
	full := min(max(int(*share*float64(inner)+0.5), 0), inner)
	return "[" + strings.Repeat("|", full) + strings.Repeat(" ", inner-full) + "]"
}
