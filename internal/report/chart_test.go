package report

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func TestPathOfALineHasAGapWhereNothingWasMeasured(t *testing.T) {
	nan := math.NaN()
	l := chartLine{times: []int64{0, 10, 20, 30, 40, 50}, values: hostapi.Column{1, 2, nan, 4, nan, math.Inf(1)}}
	line, low := l.paths(0, 100, 4)
	must.Equal(t, "the line", "M0 75h0L100 50M300 0h0", line)
	must.Equal(t, "the area", "M0 75L100 50L100 100L0 100ZM300 0L300 100L300 100Z", low)
}

func TestTimeMarksAreRoundInTheReportsZone(t *testing.T) {
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text)
		must.NoError(t, err)
		return when
	}
	for _, tt := range []struct{ from, to, want string }{
		{"2026-03-01T12:00:00+01:00", "2026-03-01T13:00:00+01:00", "12:00 12:15 12:30 12:45 13:00"},
		{"2026-03-01T12:00:03+05:30", "2026-03-01T12:00:21+05:30", "12:00:05 12:00:10 12:00:15 12:00:20"},
		{"2026-03-01T22:10:00+01:00", "2026-03-02T03:00:00+01:00", "23:00 03-02 01:00 02:00 03:00"},
		{"2026-03-01T22:10:00Z", "2026-03-11T03:00:00Z", "03-02 03-04 03-06 03-08 03-10"},
	} {
		var texts []string
		for _, m := range timeMarks(at(tt.from), at(tt.to)) {
			if m.at < 0 || m.at > 1 {
				t.Errorf("%s is at %v", m.text, m.at)
			}
			texts = append(texts, m.text)
		}
		must.Equal(t, tt.from+" to "+tt.to, tt.want, strings.Join(texts, " "))
	}
}

func TestAxisEndsAtARoundNumber(t *testing.T) {
	for _, tt := range []struct {
		of   unit
		most float64
		want string
	}{
		{cpus, 7.1, "8"}, {cpus, 0, "1"}, {cpus, 0.013, "1"}, {number, 1, "2"}, {number, 33, "40"},
		{byteCount, 16 * gib, "16 GiB"}, {byteCount, 17 * gib, "24 GiB"}, {byteRate, 150 << 20, "192 MiB/s"},
		{share, 0.43, "50%"}, {share, 0.99, "100%"}, {percent, 3, "100%"}, {watts, 329, "400 W"},
	} {
		must.Equal(t, fmt.Sprint("the axis of ", tt.most), tt.want, tt.of.text(tt.of.top(tt.most)))
	}
}
