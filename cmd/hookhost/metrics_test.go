package main_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// scrape returns the daemon's metrics from the socket, as root.
func (n *node) scrape() string {
	n.t.Helper()
	text, err := n.metrics()
	must.NoError(n.t, err)
	return text
}

// metrics returns what Prometheus is told.
func (n *node) metrics() (string, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", n.path("run/s"))
	}
	client := &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: time.Minute,
	}
	status, text, err := answerTo(client, "http://localhost/metrics")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d %s", status, text)
	}
	return text, err
}

func answerTo(client *http.Client, url string) (status int, text string, err error) {
	resp, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// valueOf returns the value of the one sample whose name and labels the pattern matches, -1 for
// none.
func valueOf(t testing.TB, scrape, pattern string) float64 {
	t.Helper()
	found := regexp.MustCompile("(?m)^"+pattern+" (\\S+)$").FindAllStringSubmatch(scrape, -1)
	if len(found) == 0 {
		return -1
	}
	v, err := strconv.ParseFloat(found[0][1], 64)
	if err != nil || len(found) > 1 {
		t.Errorf("%s: %q, %v", pattern, found, err)
	}
	return v
}

// freePort returns the number of a port that nobody has on this machine.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must.NoError(t, err)
	return port
}

// A job runs while another one runs out of memory and a hook is killed.
func TestMetricsTellOfJobsAndOfTheDaemon(t *testing.T) {
	port := freePort(t)
	n := newNode(t, "[metrics]\nlisten = ':"+port+"'")
	n.serve()
	run := n.command("run", "-l", "select=1:ncpus=1:mem=256mb", "-l", "walltime=01:00:00", "--",
		"python3", "-c", "x = bytearray(8 << 20)\nwhile True: pass")
	must.NoError(t, run.Start())
	defer func() {
		run.Process.Kill()
		run.Wait()
		must.Eventually(t, "the job is over", func() bool { return len(n.jobDirs()) == 0 })
	}()
	n.hookhost("run", "-l", "select=1:ncpus=1:mem=64mb", "--", "python3", "-c", "x = bytearray(300 << 20)")

	text := ""
	// The kernel may add up a cgroup's memory only every two seconds. Before Linux 5.13 it may
	// leave out 32 pages of each cpu for good.
	must.Eventually(t, "the job has used cpu time and memory", func() bool {
		text = n.scrape()
		return valueOf(t, text, `pbs_cgroup_cpu_usage_seconds_total{.*}`) > 0.1 &&
			valueOf(t, text, `pbs_cgroup_mem_rss_bytes{.*}`) > 0
	})
	const job = `{jobid="[0-9]+\.[^"]+",runcount="1"}`
	for _, want := range []struct {
		sample      string
		least, most float64
	}{
		{"pbs_cgroup_cpus" + job, 1, 1},
		{"pbs_cgroup_mem_rss_bytes" + job, 1, 64 << 20},
		{"pbs_cgroup_mem_cache_bytes" + job, 0, 256 << 20},
		{"pbs_cgroup_mem_limit_bytes" + job, 256 << 20, 256 << 20},
		{"pbs_cgroup_thread_usage" + job, 1, 9},
		{"pbs_cgroup_mem_oom_kill_total" + job, 0, 0},
		{"pbs_job_walltime_remaining_seconds" + job, 3000, 3600},
		{`pbs_job_info{.*username="root"}`, 1, 1},
		{`hookhost_jobs{phase="running"}`, 1, 1},
		{`hookhost_jobs{phase="exiting"}`, 0, 0},
		{`hookhost_events_total{event="execjob_begin",result="accept"}`, 2, 2},
		{`hookhost_events_total{event="execjob_begin",result="error"}`, 0, 0},
		{`hookhost_events_total{event="execjob_end",result="accept"}`, 1, 1},
		{`hookhost_event_duration_seconds_count{event="execjob_begin"}`, 2, 2},
		{`hookhost_event_duration_seconds_sum{event="execjob_begin"}`, 0.0001, 120},
		{`hookhost_hook_calls_total{hook="cgroup",result="accept"}`, 7, 1000},
		{`hookhost_hook_call_duration_seconds_count{hook="walltime"}`, 1, 1000},
		{`hookhost_hook_up{hook="cgroup"}`, 1, 1},
		{`hookhost_hook_crashes_total{hook="cgroup"}`, 0, 0},
		{"hookhost_oom_kills_total", 1, 9},
		{"hookhost_reports_written_total", 1, 1},
		{"hookhost_report_write_failures_total", 0, 0},
		{"hookhost_strays_adopted_total", 0, 0},
		{`hookhost_build_info{goversion="go[^"]+",version="[^"]+"}`, 1, 1},
		{"process_resident_memory_bytes", 1 << 20, 1 << 30},
	} {
		if v := valueOf(t, text, want.sample); v < want.least || v > want.most {
			t.Errorf("%s is %v, want %v to %v", want.sample, v, want.least, want.most)
		}
	}

	hook := processesNamed(filepath.Join(built, "hooks/mpi"))
	for _, pid := range hook {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil &&
			strings.Contains(string(stat), fmt.Sprintf("PPid:\t%d\n", n.owner())) {
			must.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	must.Eventually(t, "the crash is counted, and the hook runs again", func() bool {
		text = n.scrape()
		return valueOf(t, text, `hookhost_hook_crashes_total{hook="mpi"}`) == 1 &&
			valueOf(t, text, `hookhost_hook_restarts_total{hook="mpi"}`) == 1 &&
			valueOf(t, text, `hookhost_hook_up{hook="mpi"}`) == 1
	})
	t.Run("over TCP too", func(t *testing.T) { metricsOverTCP(t, n, port) })
	if os.Getenv("HOOKHOST_TEST_BIN") == "" { // a guest has neither these files nor promtool
		t.Run("packaging", func(t *testing.T) { metricsFitPackaging(t, text) })
	}
}

// metricsOverTCP follows the address through reloads.
func metricsOverTCP(t *testing.T, n *node, port string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status, text, err := answerTo(client, "http://127.0.0.1:"+port+"/metrics")
	if err != nil || status != 200 || valueOf(t, text, `hookhost_jobs{phase="running"}`) != 1 {
		t.Errorf("%d %v %.1000s", status, err, text)
	}
	for _, path := range []string{"/", "/v1/jobs", "/v1/node", "/v1/present"} {
		if status, text, err := answerTo(client, "http://127.0.0.1:"+port+path); err != nil || status != 404 {
			t.Errorf("%s: %d %v %.200s", path, status, err, text)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer taken.Close()
	config, err := os.ReadFile(n.path("hookhost.toml"))
	must.NoError(t, err)
	move := func(to string) {
		t.Helper()
		text := strings.Replace(string(config), "':"+port+"'", to, 1)
		must.NoError(t, os.WriteFile(n.path("hookhost.toml"), []byte(text), 0o600))
		must.NoError(t, syscall.Kill(n.owner(), syscall.SIGHUP))
		must.Eventually(t, "the old address is left", func() bool {
			_, _, err := answerTo(client, "http://127.0.0.1:"+port+"/metrics")
			return err != nil
		})
	}
	_, busy, _ := net.SplitHostPort(taken.Addr().String())
	move("':" + busy + "'")
	must.Eventually(t, "the log says that the address is taken",
		func() bool { return n.logged("metrics.listen: nothing") == 1 })
	must.NoError(t, taken.Close())
	must.NoError(t, syscall.Kill(n.owner(), syscall.SIGHUP))
	must.Eventually(t, "the next reload takes it", func() bool {
		status, _, err := answerTo(client, "http://127.0.0.1:"+busy+"/metrics")
		return err == nil && status == 200
	})
}

// metricsFitPackaging compares a scrape with the files for Prometheus and Grafana, and with what
// promtool wants of it.
func metricsFitPackaging(t *testing.T, scrape string) {
	for _, file := range []string{"prometheus/hookhost.rules.yml", "grafana/hookhost.json"} {
		text, err := os.ReadFile("../../packaging/" + file)
		must.NoError(t, err)
		for _, name := range regexp.MustCompile(`\b(?:hookhost|pbs_cgroup|pbs_job|process|go)_[a-z0-9_]+\b`).
			FindAllString(string(text), -1) {
			// internal/metrics has these: this machine may have no GPU, or not count disks
			other := strings.HasPrefix(name, "pbs_job_gpu_") || strings.HasPrefix(name, "pbs_cgroup_io_")
			refused := name == "hookhost_refused_calls_total"
			if !other && !refused && !regexp.MustCompile("(?m)^"+name+"(_bucket)?[{ ]").MatchString(scrape) {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
	if _, err := exec.LookPath("promtool"); err != nil {
		if os.Getenv("HOOKHOST_KERNEL_TESTS") == "required" {
			t.Fatal("promtool is required: install Debian's package prometheus")
		}
		t.Skip("needs promtool, of Debian's package prometheus")
	}
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(scrape)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
