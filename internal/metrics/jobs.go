package metrics

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
)

// Jobs lists the live jobs.
type Jobs interface {
	// Jobs returns the jobs that live here.
	Jobs(context.Context) ([]api.Job, error)
}

// Meter reads the usage of live jobs.
type Meter interface {
	// Present returns a job's current usage.
	Present(job string) (api.Present, error)
}

// listTime bounds the wait for records that hooks are about to report, after a start.
const listTime = 5 * time.Second

// jobCollector reads the jobs at each scrape. An absent counter is absent, never 0.
type jobCollector struct{ opt *Options }

// readersAtOnce bounds how many jobs are read at the same time.
const readersAtOnce = 4

// maxLabel bounds the bytes of a label whose text comes from outside.
const maxLabel = 128

var (
	jobLabels = []string{"jobid", "runcount"}

	jobsLive = prometheus.NewDesc("hookhost_jobs", "Live jobs on this host, by phase.", []string{"phase"}, nil)

	jobInfo = prometheus.NewDesc("pbs_job_info", "A job's owner, queue and project, on its mother superior.",
		append(jobLabels, "username", "queue", "project"), nil)
	jobLeft = ofJob("pbs_job_walltime_remaining_seconds", "How long the job may still run; absent without a limit.")
	jobCPUs = ofJob("pbs_cgroup_cpus", "Cpus that the job was granted.")
	jobCPU  = ofJob("pbs_cgroup_cpu_usage_seconds_total", "Cpu time of the job.")
	jobRSS  = ofJob("pbs_cgroup_mem_rss_bytes", "Anonymous and shared memory of the job.")
	// pbs_exporter splits this into active and inactive page cache.
	jobCache = ofJob("pbs_cgroup_mem_cache_bytes", "Page cache of files, without shared memory, of the job.")
	jobLimit = ofJob("pbs_cgroup_mem_limit_bytes", "The job's limit of memory; absent without one.")
	jobTasks = ofJob("pbs_cgroup_thread_usage", "Threads of the job, those of single-threaded processes included.")
	jobKills = ofJob("pbs_cgroup_mem_oom_kill_total",
		"Processes of the job that the kernel killed because memory ran out.")

	gpuLabels = append(jobLabels, "uuid")
	gpuUsage  = prometheus.NewDesc("pbs_job_gpu_utilization_ratio",
		"Share of the time since the job got the GPU in which something ran on it, as last measured.", gpuLabels, nil)
	gpuMemory = prometheus.NewDesc("pbs_job_gpu_memory_peak_bytes",
		"The most GPU memory that one process of the job held, as last measured.", gpuLabels, nil)
	gpuEnergy = prometheus.NewDesc("pbs_job_gpu_energy_joules_total",
		"Energy that the GPU used while the job had it, as last measured.", gpuLabels, nil)
)

func ofJob(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, jobLabels, nil) }

// Describe sends what Collect may send.
func (c *jobCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		jobsLive, jobInfo, jobLeft, jobCPUs, jobCPU, jobRSS, jobCache, jobLimit, jobTasks, jobKills,
		gpuUsage, gpuMemory, gpuEnergy,
	} {
		ch <- d
	}
}

// Collect reads all jobs.
func (c *jobCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), listTime)
	defer cancel()
	jobs, err := c.opt.Jobs.Jobs(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(jobsLive, err)
		return
	}
	phases := map[hostapi.Phase]int{
		hostapi.PhasePrerun: 0, hostapi.PhaseRunning: 0, hostapi.PhaseSuspended: 0, hostapi.PhaseExiting: 0,
	}
	for _, j := range jobs {
		phases[j.Phase]++
	}
	s := &sink{}
	for phase, n := range phases {
		s.gauge(jobsLive, float64(n), string(phase))
	}
	s.sendTo(ch)
	// The registry wakes up whenever its channel has a sample. So it gets the samples of many jobs
	// at once.
	var readers sync.WaitGroup
	share := (len(jobs) + readersAtOnce - 1) / readersAtOnce
	for part := range slices.Chunk(jobs, max(share, 1)) {
		readers.Go(func() {
			s := &sink{}
			for _, j := range part {
				s.labels = []string{j.Job.ID, strconv.Itoa(j.Job.RunCount)}
				s.job(j, api.NewPresentJob(j, c.opt.Node, c.opt.Meter.Present))
			}
			s.sendTo(ch)
		})
	}
	readers.Wait()
}

func (s *sink) job(j api.Job, p api.PresentJob) {
	if j.Job.MotherSuperior {
		s.gauge(jobInfo, 1, label(j.Job.Owner.User), label(j.Job.Queue), label(j.Job.Project))
	}
	if p.NCPUs > 0 {
		s.gauge(jobCPUs, float64(p.NCPUs))
	}
	sample(s.gauge, jobLeft, p.Left)
	sample(s.counter, jobCPU, p.UsesHere.CPUSeconds)
	sample(s.gauge, jobRSS, p.UsesHere.MemBytes)
	sample(s.gauge, jobCache, p.UsesHere.CacheBytes)
	sample(s.gauge, jobLimit, p.UsesHere.MemLimitBytes)
	sample(s.gauge, jobTasks, p.UsesHere.Pids)
	sample(s.counter, jobKills, p.UsesHere.OOMKills)
	for _, d := range p.Devices {
		id := label(d.ID)
		if d.UtilizationPercent != nil {
			s.gauge(gpuUsage, *d.UtilizationPercent/100, id)
		}
		sample(s.gauge, gpuMemory, d.MemPeakBytes, id)
		sample(s.counter, gpuEnergy, d.EnergyJoules, id)
	}
}

// label returns text as a label's value. The registry refuses text that is not UTF-8.
func label(text string) string { return hostapi.Printable(hostapi.Clip(text, maxLabel)) }
