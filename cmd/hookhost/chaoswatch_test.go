package main_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// watch looks again and again for what must not be, until it is told to end. Processes of jobs are
// not to be outside of their cgroups or without their limits. No cgroup is without a job, no cpu or
// device is two jobs', and no total shrinks.
func (w *wreck) watch() (end func()) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	each := func(pause time.Duration, look func()) {
		watching.Go(func() {
			for {
				look()
				select {
				case <-done:
					return
				case <-time.After(pause):
				}
			}
		})
	}
	outside := map[int]bool{}
	each(100*time.Millisecond, func() {
		for job, pids := range w.marked() {
			for _, pid := range pids {
				if !outside[pid] && !w.isInside(job, pid) {
					w.wrong("job %s: outside of its cgroup: %s", job, describe([]int{pid}))
					outside[pid] = true
				}
			}
		}
	})
	told := map[string]bool{}
	each(300*time.Millisecond, func() { w.inspectAll(told) })
	each(time.Second, w.inspectTotals)
	return func() { close(done); watching.Wait() }
}

// inspectAll looks at all cgroups, and at the limits of all jobs. A cgroup that is in told was
// found before.
func (w *wreck) inspectAll(told map[string]bool) {
	for _, procs := range w.jobDirs() {
		id := filepath.Base(filepath.Dir(procs))
		w.mu.Lock()
		_, lives := w.live[id]
		w.mu.Unlock()
		if !lives && exists(procs) && !told[procs] {
			told[procs] = true
			w.wrong("cgroup without a job: %s", filepath.Dir(procs))
		}
	}
	w.mu.Lock()
	live := slices.Collect(maps.Values(w.live))
	w.mu.Unlock()
	for _, j := range live {
		w.inspect(j)
	}
	cpus, devices := map[int]*liveJob{}, map[string]*liveJob{}
	for _, j := range live {
		if j.cpus == 0 || !j.limited.Load() {
			continue
		}
		set, _ := kernfs.ParseIDSet(w.limit(j.id, "cpuset", "cpuset.cpus"))
		var fpgas []string
		for line := range strings.Lines(w.limit(j.id, "devices", "devices.list")) {
			if f := strings.Fields(line); strings.HasPrefix(f[1], "120:") {
				fpgas = append(fpgas, f[1])
			}
		}
		if !j.limited.Load() { // it has ended meanwhile
			continue
		}
		for _, cpu := range set.List() {
			if other := cpus[cpu]; other != nil && other.limited.Load() {
				w.wrong("cpu %d is granted to jobs %s and %s", cpu, other.id, j.id)
			}
			cpus[cpu] = j
		}
		for _, device := range fpgas {
			if other := devices[device]; other != nil && other.limited.Load() {
				w.wrong("device %s is granted to jobs %s and %s", device, other.id, j.id)
			}
			devices[device] = j
		}
	}
}

// inspect compares a job's limits, as the kernel has them, with what the job has asked for.
func (w *wreck) inspect(j *liveJob) {
	if !j.limited.Load() {
		return
	}
	resized := j.resized.Load()
	mem := int64(64 << 20)
	if resized {
		mem = 96 << 20
	}
	got := fmt.Sprint(w.limit(j.id, "memory", "memory.limit_in_bytes"), w.limit(j.id, "memory", "memory.max"),
		" ", w.limit(j.id, "pids", "pids.max"))
	cpus := w.limit(j.id, "cpuset", "cpuset.cpus")
	if set, err := kernfs.ParseIDSet(cpus); j.cpus > 0 && (err != nil || set.Len() != j.cpus) {
		got += " cpus " + cpus
	}
	if want := fmt.Sprint(mem, " 64"); got != want && j.limited.Load() && j.resized.Load() == resized {
		w.wrong("job %s: limits of mem and pids %q, want %q", j.id, got, want)
	}
}

// limit reads a file of a job's cgroup, where there is one.
func (w *wreck) limit(job, controller, file string) string {
	for _, path := range []string{
		"/sys/fs/cgroup/" + controller + "/" + w.prefix + ".service/jobid/" + job + "/" + file,
		"/sys/fs/cgroup/" + w.prefix + ".service/jobs/" + job + "/" + file,
	} {
		if text, err := os.ReadFile(path); err == nil {
			return strings.TrimSpace(string(text))
		}
	}
	return ""
}

// inspectTotals compares the metrics that only grow with those of the last scrape. The node's are
// of one daemon. Each job's are the kernel's, whoever reads them. The cpu time of the daemon itself
// is none of hookhost's counters.
func (w *wreck) inspectTotals() {
	text, err := w.metrics()
	if err != nil {
		return // no daemon at the moment
	}
	const daemon = "process_start_time_seconds"
	now := map[string]float64{}
	for line := range strings.Lines(text) {
		at := max(strings.LastIndexByte(line, ' '), 0)
		name, value := line[:at], strings.TrimSpace(line[at:])
		family, _, _ := strings.Cut(name, "{")
		grows := strings.HasSuffix(family, "_total") || strings.HasSuffix(family, "_count")
		ours := strings.HasPrefix(family, "hookhost_") || strings.HasPrefix(family, "pbs_")
		if n, err := strconv.ParseFloat(value, 64); err == nil && (grows && ours || family == daemon) {
			now[name] = n
		}
	}
	if now[daemon] != w.totals[daemon] {
		maps.DeleteFunc(w.totals, func(name string, _ float64) bool { return !strings.Contains(name, ".chaos") })
	}
	for name, n := range now {
		if was := w.totals[name]; n < was {
			w.wrong("%s has shrunk from %v to %v", name, was, n)
		}
	}
	maps.Copy(w.totals, now)
}
