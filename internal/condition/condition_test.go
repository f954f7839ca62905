package condition

import (
	"strings"
	"testing"
)

func TestConditionsHold(t *testing.T) {
	cells := map[string]string{"cpu_efficiency": "0.150", "gpu_utilization_percent": "12.5", "walltime_seconds": "7200",
		"mem_bytes": "1073741824", "exit_status": "-29", "queue": "gpu", "state": "timeout", "ncpus": "4",
		"outcome": "walltime exceeded"}
	for text, want := range map[string]bool{
		"cpu_efficiency < 20%": true, "cpu_efficiency < 0.2": true, "cpu_efficiency >= 20%": false,
		"gpu_utilization_percent<20": true, "gpu_utilization_percent < 20%": true, "walltime_seconds > 01:00:00": true,
		"walltime_seconds > 3h": false, "walltime_seconds == 7200": true, "mem_bytes <= 1gb": true,
		"mem_bytes != 1gb":   false,
		"exit_status == -29": true, "queue == gpu": true, `queue != "gpu"`: false, "queue != workq": true,
		"state == timeout and ncpus > 3": true, "state == timeout and ncpus > 4": false,
		`queue == "lost and found" and ncpus == 4`: false, `queue != "lost and found"  and  ncpus == 4`: true,
		`outcome == "walltime exceeded"`: true,
		"billing > 0":                    false, "billing <= 0": false, "owner != alice": false, // not known
	} {
		c, err := Parse(text)
		if strings.Contains(text, "3h") { // not PBS's
			if err == nil {
				t.Errorf("%s: no error", text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := c.Holds(func(figure string) string { return cells[figure] }); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

func TestWrongConditionsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "want FIGURE < VALUE",
		"ncpus":                             "want FIGURE < VALUE",
		"ncpus = 4":                         "want FIGURE < VALUE",
		"ncpus > 4 or ncpus < 2":            "want FIGURE < VALUE",
		"cpu_percent < 20":                  `figure "cpu_percent": not one of job, name`,
		"ncpus > 4 and gpu < 1":             `figure "gpu"`,
		"ncpus > four":                      "ncpus > four: want a number",
		"ncpus > 20%":                       "want a number",
		"mem_bytes > much":                  "want bytes or a size such as 4gb",
		"walltime_seconds > 3h":             "want seconds or HH:MM:SS",
		"cpu_efficiency > low":              "want a number or a percentage such as 20%",
		"queue < gpu":                       "is a text, so want == or !=",
		"start > 0":                         `figure "start"`,
		strings.Repeat("x", 1000) + " == 1": `figure "xxx`,
	} {
		if c, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, %v; want %s", text, c, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`cpu_efficiency < 20% and queue != "x y"`)
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := Parse(text); err == nil {
			c.Holds(func(string) string { return text })
		}
	})
}
