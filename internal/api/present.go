package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// Meter reads the current usage of live jobs, without their hooks.
type Meter interface {
	// Present returns the current usage of a job, or ErrNotFound.
	Present(job string) (Present, error)
	// ProcessesOf returns the job's processes, at most MaxProcesses, and how many there are. It
	// fails with ErrNotFound.
	ProcessesOf(job string) (list []JobProcess, all int, err error)
	// Capacity returns the machine's cpus and memory.
	Capacity() (Capacity, error)
}

// MaxProcesses bounds how many processes of a job are read.
const MaxProcesses = 2048

// Capacity is the size of the machine; 0 means unknown.
type Capacity struct {
	CPUs         int   `json:"cpus,omitempty"` // online
	MemBytes     int64 `json:"mem_bytes,omitempty"`
	MemAvailable int64 `json:"mem_available_bytes,omitempty"`
}

// Present is a job's current usage on this host. A nil field is not counted.
type Present struct {
	At            time.Time `json:"at,omitzero"` // when the counters were read
	CPUSeconds    *float64  `json:"cpu_seconds,omitempty"`
	UserSeconds   *float64  `json:"user_seconds,omitempty"`
	SystemSeconds *float64  `json:"system_seconds,omitempty"`
	MemBytes      *int64    `json:"mem_bytes,omitempty"`   // anonymous and shared
	ShmemBytes    *int64    `json:"shmem_bytes,omitempty"` // the shared part of it
	CacheBytes    *int64    `json:"cache_bytes,omitempty"`
	ChargedBytes  *int64    `json:"charged_bytes,omitempty"`   // page cache and kernel memory included
	MemLimitBytes *int64    `json:"mem_limit_bytes,omitempty"` // nil also without a limit
	OOMKills      *int64    `json:"oom_kills,omitempty"`
	MemFailures   *int64    `json:"mem_failures,omitempty"` // charges beyond the limit
	ReadBytes     *int64    `json:"read_bytes,omitempty"`   // from block devices
	WriteBytes    *int64    `json:"write_bytes,omitempty"`  // to block devices
	Pids          *int64    `json:"pids,omitempty"`         // threads included
}

// PresentJob is a live job with its current usage. Devices and NCPUs come from the last measurement
// of its hooks.
type PresentJob struct {
	ID       string                `json:"id"`
	Name     string                `json:"name,omitempty"`
	User     string                `json:"user,omitempty"`
	UID      int                   `json:"uid"`
	Phase    hostapi.Phase         `json:"phase"`
	Elapsed  *float64              `json:"elapsed_seconds,omitempty"` // nil before its launch
	Left     *float64              `json:"walltime_left_seconds,omitempty"`
	NCPUs    int                   `json:"ncpus,omitempty"` // 0: not known
	Devices  []hostapi.DeviceUsage `json:"devices,omitempty"`
	Hosts    int                   `json:"hosts,omitempty"` // with usage
	UsesHere Present               `json:"uses"`
}

// PresentJobs are the live jobs that the caller may see.
type PresentJobs struct {
	Node     string       `json:"node"`
	Capacity Capacity     `json:"capacity"`
	Jobs     []PresentJob `json:"jobs"`
}

// JobProcess is a process of a job.
type JobProcess struct {
	PID        int       `json:"pid"`
	StartTime  uint64    `json:"start_time"` // clock ticks since boot
	UID        int       `json:"uid"`
	State      string    `json:"state"` // as in ps: R, S, D, ...
	At         time.Time `json:"at"`    // time of the reading
	CPUSeconds float64   `json:"cpu_seconds"`
	RSSBytes   int64     `json:"rss_bytes"`
	Threads    int       `json:"threads"`
	Comm       string    `json:"comm"` // chosen by the process
}

// JobProcesses lists a job's processes. All is how many there are, which may be more.
type JobProcesses struct {
	Processes []JobProcess `json:"processes"`
	All       int          `json:"all"`
}

// Present returns the live jobs that the caller may see, with their current usage.
func (c *Client) Present(ctx context.Context) (PresentJobs, error) {
	return get[PresentJobs](ctx, c, "/v1/present")
}

// ProcessesOf returns the processes of a live job on this host, or ErrNotFound.
func (c *Client) ProcessesOf(ctx context.Context, job string) (JobProcesses, error) {
	return get[JobProcesses](ctx, c, "/v1/jobs/"+url.PathEscape(job)+"/processes")
}

// present answers with the current usage of the jobs that the peer may see. No other job is read.
// Figures that cannot be read are left out: the job may be ending.
func (s *Server) present(peer Peer, r *http.Request) (any, error) {
	jobs, err := s.visible(r.Context(), peer)
	if err != nil {
		return nil, err
	}
	answer := PresentJobs{Node: s.Host, Jobs: make([]PresentJob, 0, len(jobs))}
	answer.Capacity, _ = s.Meter.Capacity()
	for _, j := range jobs {
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		answer.Jobs = append(answer.Jobs, NewPresentJob(j, s.Host, s.Meter.Present))
	}
	return answer, nil
}

// NewPresentJob returns a live job with its current usage of host here, as returned by read.
func NewPresentJob(j Job, here string, read func(job string) (Present, error)) PresentJob {
	p := PresentJob{
		ID: j.Job.ID, Name: j.Job.Name, User: j.Job.Owner.User, UID: j.Job.Owner.UID, Phase: j.Phase,
		Left: j.Left, Hosts: len(j.Hosts),
	}
	if !j.Launched.IsZero() {
		p.Elapsed = &j.Elapsed
	}
	p.UsesHere, _ = read(p.ID)
	u := j.Hosts[here]
	if u == nil {
		return p
	}
	p.NCPUs, p.Devices = u.NCPUs, u.Devices
	// The kernel's limit may have room for page cache beyond the job's mem.
	if u.MemLimitBytes != nil {
		p.UsesHere.MemLimitBytes = u.MemLimitBytes
	}
	return p
}

// processesOf answers with the processes of a job.
func (s *Server) processesOf(peer Peer, r *http.Request) (any, error) {
	id := r.PathValue("id")
	if err := hostapi.CheckJobID(id); err != nil {
		return nil, malformed(err)
	}
	j, err := s.Jobs.Job(r.Context(), id)
	if err == nil && (j.Job == nil || !peer.sees(j.Job)) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, hidden(peer, id, err)
	}
	list, all, err := s.Meter.ProcessesOf(id)
	if errors.Is(err, ErrNotFound) { // the job has ended meanwhile
		return nil, hidden(peer, id, err)
	}
	return JobProcesses{Processes: list, All: all}, err
}
