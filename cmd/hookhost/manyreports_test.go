package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/series"
)

// manyReports gives a node the reports of 100,000 jobs, as a year leaves them. Job N is N.srv, but
// 200 are the array 60000[].srv. A tenth of them is the owner's.
func (n *node) manyReports() (jobs int) {
	n.t.Helper()
	cases, err := filepath.Glob("../../internal/report/testdata/cases/*.archive.json")
	must.NoError(n.t, err)
	var all []*report.Report
	for _, path := range cases {
		text, err := os.ReadFile(path)
		must.NoError(n.t, err)
		r, err := report.FromArchive(text)
		must.NoError(n.t, err)
		r.Hosts = series.Without(r.Hosts)
		all = append(all, r)
	}
	const count, apart = 100_000, 5 * time.Minute
	archive := n.archive()
	first := time.Now().Add(-count * apart).Truncate(time.Millisecond)
	var next atomic.Int64
	var writers sync.WaitGroup
	for range 64 { // a disk syncs many files at once
		writers.Go(func() {
			for i := int(next.Add(1)) - 1; i < count; i = int(next.Add(1)) - 1 {
				r := *all[i%len(all)]
				job := *r.PBSJob
				r.Job, r.PBSJob, job.Owner.UID = fmt.Sprintf("%d.srv", i), &job, 1000
				if i%10 == 0 {
					job.Owner.UID = ownerUID
				}
				if i >= 60_000 && i < 60_200 {
					r.Job = fmt.Sprintf("60000[%d].srv", i-60_000)
				}
				job.ID = r.Job
				end := first.Add(time.Duration(i) * apart)
				start := end.Add(-time.Hour)
				r.Start, r.End = &start, &end
				if err := archive.Write(&r, nil); err != nil {
					n.t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	return count
}

// BenchmarkManyReports is how long commands take that ask about 100,000 finished jobs: as root
// without a daemon, and a daemon.
func BenchmarkManyReports(b *testing.B) {
	n := openNode(b)
	jobs := n.manyReports()
	questions := []struct {
		name   string
		args   []string
		rounds int
	}{
		{"last", []string{"report", fmt.Sprintf("%d.srv", jobs-1)}, 9},
		{"one", []string{"report", fmt.Sprintf("%d.srv", jobs/2)}, 9},
		{"array", []string{"report", "60000[]"}, 9},
		{"newest", []string{"report", "--user=1000"}, 9},
		{"unknown", []string{"report", "999999999.srv"}, 9},
		{"user", []string{"report", "--user=" + fmt.Sprint(ownerUID), "--format=csv"}, 1},
		{"week", []string{"report", "--since=7d", "--format=csv"}, 1},
		{"failed", []string{"report", "--state=failed"}, 9},
		{"sorted", []string{"report", "--sort=mem_bytes"}, 1},
		{"all", []string{"report", "--format=json"}, 1},
	}
	ask := func(b *testing.B) {
		for _, q := range questions {
			b.ReportMetric(medianOf(q.rounds, func() time.Duration {
				begun := time.Now()
				if err := n.command(q.args...).Run(); err != nil && q.name != "unknown" {
					b.Fatalf("%v: %v", q.args, err)
				}
				return time.Since(begun)
			}), q.name+"-ms")
		}
		b.ReportMetric(0, "ns/op")
	}
	b.Run("without-daemon", ask)
	d := n.serve()
	b.Run("daemon", func(b *testing.B) {
		ask(b)
		b.ReportMetric(float64(status(b, d.cmd.Process.Pid, "VmRSS"))/1024, "daemon-rss-MB")
	})
}

// medianOf returns the median of a few measurements in milliseconds.
func medianOf(count int, measure func() time.Duration) float64 {
	var took []time.Duration
	for range count {
		took = append(took, measure())
	}
	slices.Sort(took)
	return float64(took[count/2].Microseconds()) / 1000
}

// BenchmarkRunWhileOthersAsk is `run -- true` on a node with 100,000 finished jobs, alone and
// beside two users. They ask for one job over and over, or for all their jobs, or keep a cpu busy
// each. The four take turns.
func BenchmarkRunWhileOthersAsk(b *testing.B) {
	n := openNode(b)
	n.manyReports()
	n.serve()
	run := func() time.Duration {
		begun := time.Now()
		must.NoError(b, n.command("run", "--report=none", "-l", "select=1:ncpus=1:mem=64mb", "--", "true").Run())
		return time.Since(begun)
	}
	while := func(script string) (took []time.Duration) {
		for _, uid := range []uint32{ownerUID, strangerUID} {
			cmd := exec.Command("sh", "-c", script, filepath.Join(built, "hookhost"))
			cmd.Dir, cmd.Env = "/", []string{"HOOKHOST_SOCKET=" + n.path("run/s"), "HOOKHOST_CONFIG=/nonexistent"}
			cmd.SysProcAttr = sessionOf(uid)
			must.NoError(b, cmd.Start())
			defer func() {
				unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
				cmd.Wait()
			}()
		}
		time.Sleep(100 * time.Millisecond)
		for range 5 {
			took = append(took, run())
		}
		return took
	}
	took := map[string][]time.Duration{}
	for b.Loop() {
		for name, script := range map[string]string{"alone": "sleep 1000", "busy": "while :; do :; done",
			"list": `while :; do "$0" report --format csv --state failed; done >/dev/null`,
			"one":  `while :; do "$0" report 100000.srv; done >/dev/null 2>&1`} {
			took[name] = append(took[name], while(script)...)
		}
	}
	for name, times := range took {
		spread(b, name, times)
	}
	b.ReportMetric(0, "ns/op")
}
