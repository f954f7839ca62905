package report

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// TimeForms lists the forms in which people may write a time.
const TimeForms = "2026-11-24, 2026-11-24T10:00, 10:00 (today), 3d or 12h (ago), today, yesterday or now"

// layouts are the forms of a point in time, except for a time of day.
var layouts = []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04",
	"2006-01-02 15:04:05", time.RFC3339}

// longAgo bounds a time ago, so that the result is a valid time.
const longAgo = 200 * 365 * 24 * time.Hour

// agoPart is a number and its unit, as in "1d12h".
var agoPart = regexp.MustCompile(`^(\d{1,4})(w|d|h|m|s)`)

var units = map[string]time.Duration{"w": 7 * 24 * time.Hour, "d": 24 * time.Hour, "h": time.Hour, "m": time.Minute,
	"s": time.Second}

// ParseTime returns the time that a person means, relative to now and in its zone. A date alone
// means the beginning of that day.
func ParseTime(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch text {
	case "now":
		return now, nil
	case "today":
		return today, nil
	case "yesterday":
		return today.AddDate(0, 0, -1), nil
	}
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			year, month, day := now.Date()
			return time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), 0, now.Location()), nil
		}
	}
	if d, ok := ago(text); ok {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("time %q: want a form such as %s", text, TimeForms)
}

// ago returns the duration in "3d", "12h" or "1d 12h ago".
func ago(text string) (sum time.Duration, ok bool) {
	rest := strings.ReplaceAll(strings.TrimSpace(strings.TrimSuffix(text, "ago")), " ", "")
	for rest != "" {
		part := agoPart.FindStringSubmatch(rest)
		if part == nil {
			return 0, false
		}
		n, _ := strconv.Atoi(part[1])
		sum += time.Duration(n) * units[part[2]]
		if sum < 0 || sum > longAgo {
			return 0, false
		}
		rest = rest[len(part[0]):]
		ok = true
	}
	return sum, ok
}
