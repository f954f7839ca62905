package metrics

import (
	"maps"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookhost/hookhost/hostapi"
)

// The figures of jobs have names that other programs read. All names are filled from one reading of
// a job.

// set holds the metrics of jobs with the names of one program.
type set struct {
	labels  []string                        // that each of its metrics has
	values  func(job *hostapi.Job) []string // of labels
	metrics []metric
}

// metric is a name and its figure.
type metric struct {
	name string
	kind prometheus.ValueType
	figure
	desc *prometheus.Desc
}

// The name of a counter ends in _total. Other programs' counters whose names do not are gauges, as
// in their exporters, or untyped.
const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
	untyped = prometheus.UntypedValue
)

var sets = map[string]*set{
	// Of pbs_exporter, https://github.com/0nebody/pbs_exporter, except for those about kills, time
	// left and GPUs. Its io metrics have a label for the device.
	"pbs": describe(set{
		labels: []string{"jobid", "runcount"},
		values: func(j *hostapi.Job) []string { return []string{j.ID, strconv.Itoa(j.RunCount)} },
		metrics: []metric{
			{name: "pbs_job_info", kind: gauge, figure: info},
			{name: "pbs_job_walltime_remaining_seconds", kind: gauge, figure: left},
			{name: "pbs_cgroup_cpus", kind: gauge, figure: cpus},
			{name: "pbs_cgroup_cpu_usage_seconds_total", kind: counter, figure: cpuTime},
			{name: "pbs_cgroup_mem_rss_bytes", kind: gauge, figure: mem},
			{name: "pbs_cgroup_mem_cache_bytes", kind: gauge, figure: cache},
			{name: "pbs_cgroup_mem_limit_bytes", kind: gauge, figure: memLimit},
			{name: "pbs_cgroup_mem_oom_kill_total", kind: counter, figure: oomKillsOf},
			{name: "pbs_cgroup_thread_usage", kind: gauge, figure: threads},
			{name: "pbs_cgroup_io_rbytes_bytes", kind: untyped, figure: bytesRead},
			{name: "pbs_cgroup_io_wbytes_bytes", kind: untyped, figure: bytesWritten},
			{name: "pbs_job_gpu_utilization_ratio", kind: gauge, figure: gpuUsage},
			{name: "pbs_job_gpu_memory_peak_bytes", kind: gauge, figure: gpuMemory},
			{name: "pbs_job_gpu_energy_joules_total", kind: counter, figure: gpuEnergy},
		},
	}),
	// Of https://github.com/plazonic/cgroup_exporter, as jobstats and its dashboard read them. They
	// ask for empty labels step and task, which also matches a metric without these labels.
	"jobstats": describe(set{
		labels: []string{"jobid"},
		values: func(j *hostapi.Job) []string { return []string{j.ID} },
		metrics: []metric{
			{name: "cgroup_cpus", kind: gauge, figure: cpus},
			{name: "cgroup_cpu_total_seconds", kind: gauge, figure: cpuTime},
			{name: "cgroup_cpu_user_seconds", kind: gauge, figure: userTime},
			{name: "cgroup_cpu_system_seconds", kind: gauge, figure: systemTime},
			{name: "cgroup_memory_total_bytes", kind: gauge, figure: memLimit},
			{name: "cgroup_memory_used_bytes", kind: gauge, figure: charged},
			{name: "cgroup_memory_rss_bytes", kind: gauge, figure: anon},
			{name: "cgroup_memory_shmem_bytes", kind: gauge, figure: shmem},
			{name: "cgroup_memory_cache_bytes", kind: gauge, figure: cacheAndShmem},
			{name: "cgroup_memory_fail_count", kind: gauge, figure: memFailures},
		},
	}),
	// Of ceems_exporter, https://github.com/ceems-dev/ceems, as its rules and dashboards read them.
	// A job is a compute unit there.
	"ceems": describe(set{
		labels: []string{"manager", "uuid"},
		values: func(j *hostapi.Job) []string { return []string{"pbs", j.ID} },
		metrics: []metric{
			{name: "ceems_compute_unit_cpus", kind: gauge, figure: cpus},
			{name: "ceems_compute_unit_cpu_user_seconds_total", kind: counter, figure: userTime},
			{name: "ceems_compute_unit_cpu_system_seconds_total", kind: counter, figure: systemTime},
			{name: "ceems_compute_unit_memory_total_bytes", kind: gauge, figure: memLimit},
			{name: "ceems_compute_unit_memory_used_bytes", kind: gauge, figure: charged},
			{name: "ceems_compute_unit_memory_rss_bytes", kind: gauge, figure: anon},
			{name: "ceems_compute_unit_memory_cache_bytes", kind: gauge, figure: cacheAndShmem},
			{name: "ceems_compute_unit_gpu_index_flag", kind: gauge, figure: gpuHeld},
		},
	}),
}

// describe adds the descriptions of a set's metrics.
func describe(s set) *set {
	for i := range s.metrics {
		m := &s.metrics[i]
		m.desc = prometheus.NewDesc(m.name, m.help, slices.Concat(s.labels, m.figure.labels), nil)
	}
	return &s
}

// Sets returns the names of the sets, in alphabetical order.
func Sets() []string { return slices.Sorted(maps.Keys(sets)) }
