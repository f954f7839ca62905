package main_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

// BenchmarkScrape is a scrape over TCP of a node with 500 jobs, as Prometheus sees it, with the
// default names and with all.
func BenchmarkScrape(b *testing.B) {
	for _, names := range []string{"['pbs']", "['pbs', 'jobstats', 'ceems']"} {
		b.Run(names, func(b *testing.B) { benchScrape(b, names) })
	}
}

func benchScrape(b *testing.B, names string) {
	const jobs = 500
	port := freePort(b)
	n := newNode(b, "[metrics]\nlisten = ':"+port+"'\nnames = "+names)
	d := n.serve()
	all := func(events ...hostapi.Event) {
		client, err := api.Dial(n.path("run/s"))
		must.NoError(b, err)
		defer client.Close()
		for i := range jobs {
			job := &hostapi.Job{
				ID: fmt.Sprintf("%d.bench", i+1), Owner: hostapi.Owner{User: "root"}, MotherSuperior: true,
				ResourceList: hostapi.Resources{"ncpus": "0", "mem": "4mb", "walltime": "01:00:00"},
			}
			for _, e := range events {
				out, err := client.Handle(context.Background(), &hostapi.Request{Event: e, Job: job})
				if err != nil || out.Reject {
					b.Fatalf("%s: %v %+v", e, err, out)
				}
			}
		}
	}
	all(hostapi.EventBegin, hostapi.EventLaunch)
	defer all(hostapi.EventEpilogue, hostapi.EventEnd)
	prometheus := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	var took []time.Duration
	before := cpuTime(b, d.cmd.Process.Pid)
	for b.Loop() {
		began := time.Now()
		code, text, err := answerTo(prometheus, "http://127.0.0.1:"+port+"/metrics")
		took = append(took, time.Since(began))
		if err != nil || code != 200 || strings.Count(text, "\npbs_cgroup_cpu_usage_seconds_total{") != jobs {
			b.Fatalf("%d %v", code, err)
		}
	}
	cpu := cpuTime(b, d.cmd.Process.Pid) - before
	spread(b, "scrape", took)
	b.ReportMetric(cpu.Seconds()*1000/float64(len(took)), "cpu-ms")
	b.ReportMetric(float64(status(b, d.cmd.Process.Pid, "VmRSS")), "rss-kB")
}

// cpuTime returns the cpu time of a process's threads that live.
func cpuTime(b *testing.B, pid int) (sum time.Duration) {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	must.NoError(b, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must.NoError(b, err)
		var ns int64
		fmt.Sscan(string(text), &ns)
		sum += time.Duration(ns)
	}
	return sum
}
