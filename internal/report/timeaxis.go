package report

import "time"

// mark is a place on a time axis, with its text.
type mark struct {
	at   float64 // of the axis, 0 to 1
	text string
}

// timeSteps are distances between the marks of a time axis, in seconds.
var timeSteps = []int64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, day,
	2 * day, 7 * day, 14 * day, 28 * day, 91 * day, 364 * day}

const day = 24 * 3600

// mostMarks is how many marks fit side by side on a phone.
const mostMarks = 5

// timeMarks returns round times between from and to, in the zone of from.
func timeMarks(from, to time.Time) []mark {
	_, offset := from.Zone()
	first, last := from.Unix()+int64(offset), to.Unix()+int64(offset)
	step := timeSteps[len(timeSteps)-1]
	for _, s := range timeSteps {
		if (last-first)/s < mostMarks {
			step = s
			break
		}
	}
	var marks []mark
	for at := (first + step - 1) / step * step; at <= last && len(marks) <= mostMarks; at += step {
		layout := "15:04"
		if at%day == 0 && (step >= day || first/day != last/day) {
			layout = "01-02"
		} else if step < 60 {
			layout = "15:04:05"
		}
		text := time.Unix(at, 0).UTC().Format(layout)
		marks = append(marks, mark{float64(at-first) / float64(last-first), text})
	}
	return marks
}
