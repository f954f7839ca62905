package metrics

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// peerQueries are the queries that jobstats and ceems make about a job, in kind, with their results
// for the job 1[2].srv of someJobs. They are in jobstats.py and grafana/Single_Job_Stats.json of
// jobstats, and in etc/prometheus/rules and thirdparty/grafana of ceems.
var peerQueries = []struct {
	query, labels string
	value         float64
}{
	{`max_over_time(cgroup_memory_total_bytes{cluster='c',jobid='1[2].srv',step=''}[120s])`, jobLabels, 64 << 20},
	{`max_over_time(((cgroup_memory_rss_bytes{cluster='c',jobid='1[2].srv',step=''}` +
		` + cgroup_memory_shmem_bytes{cluster='c',jobid='1[2].srv',step=''})` +
		` or 1*cgroup_memory_rss_bytes{cluster='c',jobid='1[2].srv',step=''})[120s:])`, jobLabels, 3 << 20},
	{`max_over_time(cgroup_cpu_total_seconds{cluster='c',jobid='1[2].srv',step=''}[120s])`, jobLabels, 12.5 + 120},
	{`max_over_time(cgroup_cpus{cluster='c',jobid='1[2].srv',step=''}[120s])`, jobLabels, 2},
	{onHost(`irate(cgroup_cpu_total_seconds{jobid="1[2].srv",step=""}[5m]) / ` +
		`cgroup_cpus{jobid="1[2].srv",step=""}`), jobLabels + `,shostname="n1"`, .5},
	{onHost(`irate(cgroup_cpu_user_seconds{jobid="1[2].srv",step=""}[5m])`), jobLabels + `,shostname="n1"`, 1},
	{onHost(`irate(cgroup_cpu_system_seconds{jobid="1[2].srv",step=""}[5m])`), jobLabels + `,shostname="n1"`, 1},
	{onHost(`1*cgroup_memory_used_bytes{jobid="1[2].srv",step=""}`), jobLabels + `,shostname="n1"`, 9 << 20},
	{onHost(`1*cgroup_memory_cache_bytes{jobid="1[2].srv",step=""}`), jobLabels + `,shostname="n1"`, 5 << 20},
	{onHost(`irate(cgroup_memory_fail_count{jobid="1[2].srv",step=""}[2m])`), jobLabels + `,shostname="n1"`, 0},

	{`(irate(ceems_compute_unit_cpu_user_seconds_total{job="pbs",uuid="1[2].srv"}[2m])` +
		` + irate(ceems_compute_unit_cpu_system_seconds_total{job="pbs"}[2m])) * 100` +
		` / (ceems_compute_unit_cpus{job="pbs"} > 0)`, unitLabels, 100},
	{`ceems_compute_unit_memory_used_bytes{job="pbs"} * 100 / (ceems_compute_unit_memory_total_bytes{job="pbs"} > 0)`,
		unitLabels, 9. / 64 * 100},
	{`sum(ceems_compute_unit_memory_rss_bytes{uuid="1[2].srv"})`, "", 2 << 20},
	{`sum(ceems_compute_unit_memory_cache_bytes{uuid="1[2].srv"})`, "", 5 << 20},
	{`ceems_compute_unit_memory_used_bytes{job="pbs",uuid="1[2].srv"}` +
		` / (ceems_compute_unit_memory_used_bytes{job="pbs"} * on (instance) group_left () ceems_compute_units{job="pbs"}) > 0`, unitLabels, 1. / 3},
	{`DCGM_FI_DEV_GPU_UTIL{job="gpu"} * on (gpuuuid,gpuiid) group_right ()` +
		` ceems_compute_unit_gpu_index_flag{job="pbs"}`,
		`gpuuuid="GPU-1",index="0000:07:00.0",` + unitLabels, 40},
}

const (
	targetLabels = `cluster="c",instance="n1:15021",job="pbs"`
	jobLabels    = targetLabels + `,jobid="1[2].srv"`
	unitLabels   = targetLabels + `,manager="pbs",uuid="1[2].srv"`
)

// onHost adds the host, as jobstats' dashboard does.
func onHost(query string) string {
	return `label_replace(` + query + `, "shostname", "$1", "instance", "(.*):.*")`
}

// jobstats and ceems find a job's figures with the queries that they make.
func TestPeersFindTheFiguresOfAJob(t *testing.T) {
	text := scrape(t, newMetrics(&node{jobs: someJobs()}).Handler(), "")
	var file strings.Builder
	file.WriteString("evaluation_interval: 30s\ntests:\n  - interval: 30s\n    input_series:\n" +
		"      - {series: 'DCGM_FI_DEV_GPU_UTIL{job=\"gpu\",gpuuuid=\"GPU-1\"}', values: '40x4'}\n")
	sample := regexp.MustCompile(`^((?:cgroup|ceems)_\w+)\{(.*)\} (\S+)$`)
	names := map[string]bool{}
	for line := range strings.Lines(text) {
		m := sample.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		names[m[1]] = false
		growth := ""
		if strings.Contains(m[1], "_seconds") {
			growth = "+30"
		}
		fmt.Fprintf(&file, "      - {series: '%s{%s,%s}', values: '%s%sx4'}\n", m[1], targetLabels, m[2], m[3], growth)
	}
	file.WriteString("    promql_expr_test:\n")
	for _, q := range peerQueries {
		fmt.Fprintf(&file, "      - {expr: %q, eval_time: 2m, exp_samples: [{labels: %q, value: %v}]}\n",
			q.query, "{"+q.labels+"}", q.value)
		for name := range names {
			names[name] = names[name] || regexp.MustCompile(`\b`+name+`\b`).MatchString(q.query)
		}
	}
	for name, asked := range names {
		if !asked {
			t.Errorf("none of the queries is about %s", name)
		}
	}
	if len(names) < 15 {
		t.Errorf("%d names: %v", len(names), names)
	}
	path := filepath.Join(t.TempDir(), "peers.test.yml")
	must.NoError(t, os.WriteFile(path, []byte(file.String()), 0o600))
	run(t, "test", "rules", path)
}

// A scrape has only the names that are configured.
func TestScrapeHasTheNamesOfItsSets(t *testing.T) {
	ofSet := map[string]*regexp.Regexp{
		"pbs": regexp.MustCompile(`(?m)^pbs_`), "jobstats": regexp.MustCompile(`(?m)^cgroup_`),
		"ceems": regexp.MustCompile(`(?m)^ceems_`),
	}
	for _, names := range [][]string{{}, {"pbs"}, {"jobstats"}, {"ceems"}, {"ceems", "pbs"}} {
		text := scrape(t, newMetrics(&node{jobs: someJobs(), names: names}).Handler(), "")
		for set, name := range ofSet {
			if got, want := name.MatchString(text), slices.Contains(names, set); got != want {
				t.Errorf("names %v: those of %s are there: %t", names, set, got)
			}
		}
		if !strings.Contains(text, "hookhost_jobs{") {
			t.Errorf("names %v: the host's own are missing", names)
		}
	}
}

// Names do not change with the format in which a scraper asks for them.
func TestNamesAreTheSameInOpenMetrics(t *testing.T) {
	m := newMetrics(&node{jobs: someJobs()})
	plain := names(scrape(t, m.Handler(), ""))
	open := names(scrape(t, m.Handler(), "application/openmetrics-text; version=1.0.0"))
	for name := range plain {
		if ofJobsOrOurs.MatchString(name) && !open[name] {
			t.Errorf("%s has another name in OpenMetrics", name)
		}
	}
}
