package main

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// memCounter is the index of mem among the counters of a job.
const memCounter = 5

// measured checks that no counter of a job has decreased.
func (l *lives) measured(id string, u *hostapi.HostUsage) {
	j := l.live[id]
	if j == nil {
		l.t.Fatalf("usage of %s, which does not live", id)
	}
	if u == nil {
		return
	}
	float := func(n *int64) *float64 {
		if n == nil {
			return nil
		}
		return new(float64(*n))
	}
	mem := float(u.MemBytes)
	if u.MemSource == memCgroupPeak { // no sample showed any memory yet; a later one shows less
		mem = nil
	}
	for i, now := range []*float64{
		u.CPUTSeconds, float(u.CgroupPeakBytes), float(u.PidsPeak), float(u.MajorFaults), float(u.OOMKills), mem,
	} {
		if now == nil {
			continue
		}
		if *now < j.used[i] {
			l.t.Fatalf("counter %d of %s: %g after %g", i, id, *now, j.used[i])
		}
		j.used[i] = *now
	}
	if u.NCPUs != j.ncpus || u.ProcessesAttached > j.attached {
		l.t.Fatalf("%s has %d cpus and %d attached, want %d and %d", id, u.NCPUs, u.ProcessesAttached, j.ncpus,
			j.attached)
	}
}

// check compares the actual state with the expected one.
func (l *lives) check() {
	l.want(slices.Sorted(maps.Keys(l.live))...)
	var alive []int
	for id, j := range l.live {
		alive = append(alive, j.pids...)
		l.checkInside(id, j)
		if j.over {
			continue
		}
		l.checkLimits(id, j)
		if frozen, err := l.cgroup(id).Frozen(); err != nil || frozen != j.suspended {
			l.t.Fatalf("%s is frozen: %v, %v", id, frozen, err)
		}
	}
	slices.Sort(alive)
	if pids := l.k.Pids(); !slices.Equal(pids, alive) {
		l.t.Fatalf("processes %v live, want %v", pids, alive)
	}
	l.checkApart()
}

// limiting matches the hierarchies in which a job has limits.
var limiting = regexp.MustCompile(`^0::|[:,](memory|cpu|cpuset|pids)[:,]`)

// checkInside checks that each hierarchy's cgroup of the job has all the job's processes and no
// others.
func (l *lives) checkInside(id string, j *life) {
	inside, err := l.cgroup(id).Processes()
	must.NoError(l.t, err)
	if !slices.Equal(inside, slices.Sorted(slices.Values(j.pids))) {
		l.t.Fatalf("%s has processes %v, want %v", id, inside, j.pids)
	}
	for _, pid := range j.pids {
		text, err := l.roots.Proc.ReadFile(strconv.Itoa(pid) + "/cgroup")
		must.NoError(l.t, err)
		for line := range strings.Lines(string(text)) {
			apart := j.ncpus == 0 && strings.Contains(line, ":cpuset:") // the common cpuset of jobs without cpus
			if limiting.MatchString(line) && !apart && !strings.HasSuffix(line, "/"+id+"\n") {
				l.t.Fatalf("process %d of %s is in %s", pid, id, line)
			}
		}
	}
}

// checkLimits checks that the limits in force are those that were requested and recorded.
func (l *lives) checkLimits(id string, j *life) {
	now, s := l.limitsNow(id), l.state(id)
	if now.CPUs.Len() != j.ncpus || now.Mem == nil || *now.Mem != j.mem {
		l.t.Fatalf("%s has cpus %q and mem %v, want %+v", id, now.CPUs, now.Mem, *j)
	}
	if s.Limits == nil || s.NCPUs != j.ncpus || s.Limits.CPUs.String() != now.CPUs.String() {
		l.t.Fatalf("%s was assigned %+v, which the kernel has as %+v", id, s.Assigned, now)
	}
	devices := 0
	if g := l.granted(id); g != nil {
		devices = len(g.Devices) + len(g.Leaving)
	}
	if devices != j.ngpus {
		l.t.Fatalf("%s holds %d devices, want %d", id, devices, j.ngpus)
	}
}

// checkApart checks that nothing is granted twice. A suspended job's cpus and memory may also be
// another's, and still its cpus after it resumes.
func (l *lives) checkApart() {
	var cpus kernfs.IDSet
	held := map[string]string{}
	var mem int64
	for id, j := range l.live {
		if j.gone() {
			continue
		}
		if g := l.granted(id); g != nil {
			for _, d := range g.Devices {
				if held[d.ID] != "" {
					l.t.Fatalf("%s and %s have %s", id, held[d.ID], d.ID)
				}
				held[d.ID] = id
			}
		}
		if j.suspended || j.resumed {
			continue
		}
		now := l.limitsNow(id)
		if twice := cpus.Intersect(now.CPUs); !twice.IsEmpty() {
			l.t.Fatalf("cpus %s of %s are another's", twice, id)
		}
		cpus = cpus.Union(now.CPUs)
		mem += *now.Mem
	}
	if mem > lifeMem {
		l.t.Fatalf("jobs were granted %d bytes", mem)
	}
}

// finishAll ends the remaining jobs, and checks that the hook has forgotten them.
func (l *lives) finishAll() {
	for id, j := range l.live {
		l.release(j)
		l.do(hostapi.EventEnd, id)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, e := range l.table {
		l.t.Errorf("of job %s, which has ended, the hook has %+v", id, e)
	}
}
