package pbs

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for _, tt := range []struct {
		text string
		want time.Duration
		err  string
	}{
		{text: "0", want: 0},
		{text: "3", want: 3 * time.Second},
		{text: "00:05:00", want: 5 * time.Minute},
		{text: "1:2:3", want: time.Hour + 2*time.Minute + 3*time.Second},
		{text: "90:00", want: 90 * time.Minute},
		{text: "1:90", want: 150 * time.Second},
		{text: "1000:00:00", want: 1000 * time.Hour},
		{text: "3.5", want: 3500 * time.Millisecond},
		{text: "00:00:00.25", want: 250 * time.Millisecond},
		{text: "1.0019", want: 1001 * time.Millisecond},
		{text: "9223372035.999", want: 9223372035999 * time.Millisecond},
		{text: "9223372036", err: "duration 9223372036: too large"},
		{text: "99999999999999999999", err: "duration 99999999999999999999: too large"},
		{text: "9999999:00:00", err: "duration 9999999:00:00: too large"},
		{text: "", err: "duration : not a duration ([[HH:]MM:]SS[.ms])"},
		{text: "1:02:03:04", err: "duration 1:02:03:04: not a duration ([[HH:]MM:]SS[.ms])"},
		{text: "-1", err: "duration -1: not a duration ([[HH:]MM:]SS[.ms])"},
		{text: "10:", err: "duration 10:: not a duration ([[HH:]MM:]SS[.ms])"},
		{text: ":10", err: "duration :10: not a duration ([[HH:]MM:]SS[.ms])"},
		{text: "3.", err: "duration 3.: not a duration ([[HH:]MM:]SS[.ms])"},
		{text: ".5", err: "duration .5: not a duration ([[HH:]MM:]SS[.ms])"},
		{text: "3.5:00", err: "duration 3.5:00: not a duration ([[HH:]MM:]SS[.ms])"},
		{text: "10m", err: "duration 10m: not a duration ([[HH:]MM:]SS[.ms])"},
		{text: "later", err: "duration later: not a duration ([[HH:]MM:]SS[.ms])"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			got, err := ParseDuration(tt.text)
			if got != tt.want || message(err) != tt.err {
				t.Errorf("ParseDuration(%q) = %v, %q, want %v, %q", tt.text, got, message(err), tt.want, tt.err)
			}
		})
	}
}

func TestFormatDuration(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{0, "00:00:00"},
		{-time.Second, "00:00:00"},
		{499 * time.Millisecond, "00:00:00"},
		{500 * time.Millisecond, "00:00:01"},
		{99 * time.Second, "00:01:39"},
		{59*time.Minute + 59*time.Second + 999*time.Millisecond, "01:00:00"},
		{100*time.Hour + time.Minute, "100:01:00"},
		{1<<63 - 1, "2562047:47:17"},
	} {
		if got := FormatDuration(tt.d); got != tt.want {
			t.Errorf("FormatDuration(%v) = %q, want %q", tt.d, got, tt.want)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"3", "00:05:00", "90:00", "1.5", "9223372035.999", "1:2:3:4", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			if d != 0 {
				t.Errorf("ParseDuration(%q) = %v with an error", text, d)
			}
			checkOneLine(t, err)
			return
		}
		if d < 0 {
			t.Fatalf("ParseDuration(%q) = %v", text, d)
		}
		again, err := ParseDuration(FormatDuration(d))
		if diff := (again - d).Abs(); err != nil && d < 1<<63-1-2*time.Second || err == nil && diff > time.Second/2 {
			t.Errorf("%q -> %v -> %q -> %v, %v", text, d, FormatDuration(d), again, err)
		}
	})
}
