package metrics

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/must"
)

const (
	rulesFile     = "../../packaging/prometheus/hookhost.rules.yml"
	dashboardFile = "../../packaging/grafana/hookhost.json"
)

// full is a scrape in which each metric has a sample, GPUs' too.
func full(t *testing.T) string {
	t.Helper()
	m := newMetrics(&node{jobs: someJobs()})
	m.Event(hostapi.EventBegin, host.Accepted, time.Millisecond)
	m.Call("cgroup", host.Accepted, time.Millisecond)
	return scrape(t, m.Handler(), "")
}

var (
	sampleName = regexp.MustCompile(`(?m)^([a-zA-Z_:][a-zA-Z0-9_:]*)`)
	ofOurs     = regexp.MustCompile(`\b(?:hookhost|pbs|process|go)_[a-z0-9_]+\b`)
)

// names returns those of the samples in a scrape.
func names(text string) map[string]bool {
	all := map[string]bool{}
	for _, match := range sampleName.FindAllStringSubmatch(text, -1) {
		all[match[1]] = true
	}
	return all
}

// expressions returns the queries of the dashboard, and of its variables.
func expressions(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	must.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
			GridPos struct{ X, Y, W, H int }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	must.NoError(t, json.Unmarshal(text, &dashboard))
	var list []string
	ids, at := map[int]bool{}, map[[2]int]string{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] {
			t.Errorf("panel %q has the id of another", p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if at[[2]int{x, y}] != "" || x >= 24 {
					t.Errorf("panel %q lies over %q or beyond the edge", p.Title, at[[2]int{x, y}])
				}
				at[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			list = append(list, target.Expr)
		}
	}
	for _, v := range dashboard.Templating.List {
		if query, is := strings.CutPrefix(v.Definition, "label_values("); is {
			list = append(list, query[:strings.LastIndex(query, ",")])
		}
	}
	return list
}

func TestDashboardAndAlertsNameMetricsThatExist(t *testing.T) {
	have := names(full(t))
	rules, err := os.ReadFile(rulesFile)
	must.NoError(t, err)
	for what, text := range map[string]string{
		"alerts": string(rules), "dashboard": strings.Join(expressions(t), "\n"),
	} {
		named := ofOurs.FindAllString(text, -1)
		if len(named) < 10 {
			t.Errorf("%s: %d names of metrics were found", what, len(named))
		}
		for _, name := range named {
			// A text may name a histogram as a whole.
			if !have[name] && !have[name+"_bucket"] && name != "pbs_mom" {
				t.Errorf("%s: there is no metric %s", what, name)
			}
		}
	}
}

// Each metric of ours has a row in the table of its page, and each row is of a metric.
func TestPageHasEachMetric(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	must.NoError(t, err)
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		rows[row[1]] = true
	}
	have := map[string]bool{}
	for name := range names(full(t)) {
		for _, part := range []string{"_bucket", "_count", "_sum"} {
			if strings.HasPrefix(name, "hookhost_") { // a histogram
				name = strings.TrimSuffix(name, part)
			}
		}
		if ofJobsOrOurs.MatchString(name) {
			have[name] = true
		}
	}
	must.Equal(t, "the rows of the page", slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(rows)))
}

// run runs promtool, whose only words are to be about success.
func run(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(promtool(t), args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if line != "" && !regexp.MustCompile(`^(Checking|Unit Testing:|SUCCESS)`).MatchString(line) {
			t.Errorf("promtool %s says: %s", strings.Join(args, " "), line)
		}
	}
}

func TestPromtoolHasNothingAgainstTheAlerts(t *testing.T) {
	run(t, "check", "rules", "--lint=all", "--lint-fatal", rulesFile)
}

// Each alert fires when its cause is there, and not before.
func TestAlertsFireWhenTheyAreTo(t *testing.T) {
	rules, err := os.ReadFile(rulesFile)
	must.NoError(t, err)
	tests, err := os.ReadFile("testdata/rules.test.yml")
	must.NoError(t, err)
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if !strings.Contains(string(tests), "alertname: "+alert[1]+"\n") {
			t.Errorf("%s has no test", alert[1])
		}
	}
	run(t, "test", "rules", "testdata/rules.test.yml")
}

// Prometheus understands each query of the dashboard.
func TestQueriesOfTheDashboardAreValid(t *testing.T) {
	var text strings.Builder
	text.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	filled := strings.NewReplacer("$instance", ".*", "$jobid", ".*", "$__rate_interval", "5m", "$__range", "1h")
	for i, query := range expressions(t) {
		fmt.Fprintf(&text, "      - record: query:%d\n        expr: %q\n", i, filled.Replace(query))
	}
	file := filepath.Join(t.TempDir(), "queries.yml")
	must.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	run(t, "check", "rules", file)
}
