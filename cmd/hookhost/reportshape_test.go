package main_test

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/report/reporttest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		must.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	must.NoError(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// reportShapes has the formats of reports by the endings of golden files. A shape is what is the
// same whenever and wherever the job runs. A measured figure is "#" in it. Lines, charts and fields
// that another kernel or a loaded machine adds are not in it.
var reportShapes = map[string]struct {
	format string
	of     func(text string) (string, error)
}{
	"txt": {"text", textShape}, "html": {"html", htmlShape}, "json": {"json", jsonShape}, "csv": {"csv", csvShape},
	"pbs": {"pbs", accountingShape},
}

type replacement struct {
	what *regexp.Regexp
	with string
}

// figures are measured, but for what the job asked for: "of 00:10:00 requested", "of 256 MiB",
// "limit 256 MiB". The kernel logs only some of its kills with the process.
var figures = []replacement{
	{regexp.MustCompile(`(Cgroup mem limit exceeded: )[^\n<;"]*`), "${1}#"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "DATE"},
	{regexp.MustCompile(`(^|>|[^f\d:] )\d+:\d\d(:\d\d)?\b`), "${1}TIME"},
	{regexp.MustCompile(`(to )\d\d:\d\d(:\d\d)?\b`), "${1}TIME"},
	{regexp.MustCompile(`(TIME )([-+]|&#43;)\d{4}`), "${1}ZONE"},
	{regexp.MustCompile(`\b\d+\.\d+ s\b`), "TIME"},
	{regexp.MustCompile(`\b\d+\.\d (of \d+ cpu)`), "# $1"},
	{regexp.MustCompile(`(>|most |[^ft] )\d+(\.\d+)? [KMG]iB\b`), "${1}SIZE"},
	{regexp.MustCompile(`(; |peak was |^mem=|try mem=)\d+mb`), "${1}#mb"},
	{regexp.MustCompile(`(requested, )\d+%`), "${1}#%"},
	{regexp.MustCompile(`\d+ (s|min) mean`), "# mean"},
	{regexp.MustCompile(`most in \d+ (s|min)`), "most in #"},
}

func replaced(text string, by []replacement) string {
	for _, r := range by {
		text = r.what.ReplaceAllString(text, r.with)
	}
	return text
}

var (
	// elsewhere are lines of a text that only some kernels and machines have.
	elsewhere = regexp.MustCompile(`(?m)^((Waited|Throttled) .*\n( {10}.*\n)*| {10}.* with page cache\n` +
		`|  (cpu|read|write|waits for \w+)( n\d)? +\|.*\n)`)
	barsAndPlots = []replacement{
		{regexp.MustCompile(`(?m)^(CPU +).*$`), "${1}# used"}, // a bar after a minute
		{regexp.MustCompile(`\[[| ]{10,}\] +\d+%`), "[bar] #%"},
		{regexp.MustCompile(`(?m)^(  \w+( n\d)?) +\|[^|\n]+\|  most`), "$1 |plot|  most"},
	}
)

func textShape(text string) (string, error) {
	var lines []string
	for line := range strings.Lines(replaced(elsewhere.ReplaceAllString(text, ""), barsAndPlots)) {
		lines = append(lines, replaced(line, figures))
	}
	return strings.Join(lines, ""), nil
}

// drawings are what a document has beside its text. The presence of a path counts alone, and an
// axis of times has any marks.
var drawings = []replacement{
	{regexp.MustCompile(`(?m)^(<dt>(Waited|Throttled)</dt>.*|.*<p>[^<]* with page cache</p>.*)\n`), ""},
	{regexp.MustCompile(`(?s)<figure>\n<figcaption><b>(Files|Waited)[^<]*</b>.*?</figure>\n`), ""},
	{regexp.MustCompile(`<rect class="at"[^>]*><title>[^<]*</title></rect>`), ""},
	{regexp.MustCompile(`(<dt>CPU</dt><dd)[^>]*>.*(</dd>)`), "$1>#$2"}, // a bar after a minute
	{regexp.MustCompile(`<span><svg class="key l2"[^>]*>.{1,60}</svg>page cache <i>[^<]*</i></span>`), ""},
	{regexp.MustCompile(`(?m)^<g class="l2">.*</g>\n`), ""},
	{regexp.MustCompile(`(?s)<style>.*</style>`), "<style>document.css</style>"},
	{regexp.MustCompile(`sha256-([\w/=]|&#43;)+`), "sha256-#"},
	{regexp.MustCompile(`( class="part" width="| aria-label="|<span class="percent">)[\d.]+%`), "$1#"},
	{regexp.MustCompile(`(<line class="grid" x1="[^"]+%".*</text>\n)+`), "times\n"},
	{regexp.MustCompile(`(<text x="-8" y="\d+" text-anchor="end">)[^<]*`), "$1#"},
	{regexp.MustCompile(`( x2="100%") y1="[^"]+" y2="[^"]+"(/><text class="limit( granted)?" x="100%") y="[^"]+"`),
		"$1$2"},
	{regexp.MustCompile(`( d=)"M[^"]+"`), `$1"M#"`},
	{regexp.MustCompile(`<i>[\d.]+( \w+)? (peak|at most)</i>`), "<i># $2</i>"},
}

func htmlShape(text string) (string, error) { return replaced(replaced(text, drawings), figures), nil }

var (
	// unsteady are the names of figures that each run has anew.
	unsteady = strings.Fields("start end cput_seconds user_seconds system_seconds mem_bytes seconds ratio cput mem " +
		"walltime cpupercent walltime_seconds mem_efficiency cput_imbalance when session " +
		"session_id elapsed note_times walltime_efficiency")
	// kernels are the names of what some kernels do not tell, and of what a short job lacks.
	kernels = strings.Fields("cpu_efficiency vmem vmem_bytes cgroup_peak_bytes pids_peak major_faults " +
		"throttled_seconds pressure mem_source read_bytes_per_second write_bytes_per_second cpu_pressure " +
		"memory_pressure io_pressure cpus mems")
)

// shapeOf is that of a value in a JSON with its name.
func shapeOf(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(name string, _ any) bool { return slices.Contains(kernels, name) })
		for name := range v {
			v[name] = shapeOf(name, v[name])
		}
		return v
	case []any:
		if len(v) > 2 { // a column of a series, or its times
			return "# points"
		}
		for i := range v {
			v[i] = shapeOf(name, v[i])
		}
		return v
	case string:
		if !slices.Contains(unsteady, name) {
			return replaced(v, figures)
		}
		return "#"
	case nil:
		return nil
	}
	if slices.Contains(unsteady, name) {
		return "#"
	}
	return value
}

func jsonShape(text string) (string, error) {
	var report map[string]any
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return "", err
	}
	b, err := json.MarshalIndent(shapeOf("", report), "", "  ")
	return string(b) + "\n", err
}

func csvShape(text string) (string, error) {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 2 {
		return "", errors.Join(err, fmt.Errorf("%d rows", len(rows)))
	}
	for i, name := range rows[0] {
		switch cell := &rows[1][i]; {
		case slices.Contains(kernels, name):
			*cell = ""
		case slices.Contains(unsteady, name) && *cell != "":
			*cell = "#"
		default:
			*cell = replaced(*cell, figures)
		}
	}
	var b strings.Builder
	err = csv.NewWriter(&b).WriteAll(rows)
	return b.String(), err
}

// accountingShape has a record's fields a line each.
func accountingShape(text string) (string, error) {
	a, err := reporttest.ReadAccounting(strings.TrimSuffix(text, "\n"))
	if err != nil {
		return "", err
	}
	lines := []string{"#;E;" + a.ID}
	for _, key := range a.Keys {
		group, name, in := strings.Cut(key, ".")
		if !in {
			name = group
		}
		switch measured := group == "resources_used" || !in; {
		case measured && slices.Contains(kernels, name):
		case measured && slices.Contains(unsteady, name):
			lines = append(lines, key+"=#")
		default:
			lines = append(lines, key+"="+a.Fields[key])
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}
