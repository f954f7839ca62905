package daemon

import (
	"errors"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// meter reads the current usage of jobs for observers. Nothing is read unless somebody asks.
type meter struct {
	tree          *cgroup.Tree
	procfs, sysfs *kernfs.FS
}

// Present returns the current usage of a job. The error is api.ErrNotFound for a job without a
// cgroup.
func (m *meter) Present(id string) (api.Present, error) {
	job, err := m.tree.Job(id)
	if err != nil {
		return api.Present{}, err
	}
	now, err := job.Present()
	return api.Present{
		At: time.Now(), CPUSeconds: seconds(now.CPU),
		UserSeconds: seconds(now.User), SystemSeconds: seconds(now.System),
		MemBytes: now.Mem, ShmemBytes: now.Shmem, CacheBytes: now.Cache, ChargedBytes: now.Charged,
		MemLimitBytes: now.MemLimit, OOMKills: now.OOMKills, MemFailures: now.MemFailures,
		ReadBytes: now.ReadBytes, WriteBytes: now.WriteBytes, Pids: now.Pids,
	}, absent(err)
}

func seconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	return new(d.Seconds())
}

// ProcessesOf returns the job's processes, at most api.MaxProcesses, and how many there are. It
// leaves out a process that ends meanwhile.
func (m *meter) ProcessesOf(id string) (list []api.JobProcess, all int, err error) {
	job, err := m.tree.Job(id)
	if err != nil {
		return nil, 0, err
	}
	pids, err := job.Processes()
	if err != nil {
		return nil, 0, absent(err)
	}
	list = []api.JobProcess{}
	for _, pid := range pids[:min(len(pids), api.MaxProcesses)] {
		p, err := proc.Read(m.procfs, pid)
		if err != nil {
			continue
		}
		list = append(list, api.JobProcess{
			PID: pid, StartTime: p.StartTime, UID: p.UID, State: string(rune(p.State)), At: time.Now(),
			CPUSeconds: p.CPU.Seconds(), RSSBytes: p.RSS, Threads: p.Threads, Comm: p.Comm,
		})
	}
	return list, len(pids), nil
}

// Capacity returns the machine's online cpus and its memory.
func (m *meter) Capacity() (api.Capacity, error) {
	var c api.Capacity
	online, err := m.sysfs.IDSet("devices/system/cpu/online")
	c.CPUs = online.Len()
	const total, available = "MemTotal", "MemAvailable"
	memory, memErr := m.procfs.Meminfo("meminfo", total, available)
	c.MemBytes, c.MemAvailable = memory[total], memory[available]
	return c, errors.Join(err, memErr)
}

// absent converts the cgroup's error for a missing job to the API's.
func absent(err error) error {
	if errors.Is(err, cgroup.ErrNotFound) {
		return fmt.Errorf("%w: %w", err, api.ErrNotFound)
	}
	return err
}
