package cgroup

import (
	"fmt"
	"strconv"
)

// memoryController limits and counts memory (cgroup-v1/memory.rst; cgroup-v2.rst, "Memory").
// memory_*.go contain everything that does not fit into a table.
var memoryController = controller{
	name: "memory",
	v1: []knob{
		// The limit of memory must never exceed that of memory and swap together, not even for a
		// moment.
		amount(knob{
			file: memoryLimit, format: asSize, none: "-1", use: "memory.usage_in_bytes",
			bound: true,
		}, limitOfMem),
		amount(knob{
			file: memswLimit, format: asSize, none: "-1", use: "memory.memsw.usage_in_bytes",
			optional: true, falling: 1, bound: true,
		}, limitOfMemSwap),
		{
			// The kernel counts buffers of TCP and UDP separately from memory.
			file: socketLimit, format: asSize, none: "-1", optional: true, use: socketUse,
			get: func(l *Limits) string { return formatBytes(l.Mem) },
		},
		{
			file: swappinessFile, optional: true, detail: true,
			get: func(l *Limits) string {
				if l.Swappiness == nil {
					return ""
				}
				return strconv.Itoa(*l.Swappiness)
			},
			set: func(l *Limits, text string) error {
				n, err := strconv.Atoi(text)
				l.Swappiness = &n
				return err
			},
		},
		amount(knob{file: memorySoft, format: asSize, none: "-1"}, limitOfMemSoft),
	},
	v2: []knob{
		amount(knob{
			file: memoryMax, format: asSize, none: "max",
			falling: 1, lower: directory.lowerMemoryMax,
		}, limitOfMem),
		{
			// The limit of swap is lowered last, so that memory can still be swapped out until
			// then.
			file: swapMax, format: asSize, none: "max", optional: true, falling: 2,
			get: func(l *Limits) string {
				if l.MemSwap == nil || l.Mem == nil {
					return ""
				}
				return strconv.FormatInt(*l.MemSwap-*l.Mem, 10)
			},
			set: func(l *Limits, text string) error {
				swap, err := parseBytes(text)
				if swap != nil && l.Mem != nil {
					both := *swap + *l.Mem
					l.MemSwap = &both
				}
				return err
			},
		},
		amount(knob{file: memoryHigh, format: asSize, none: "max", detail: true, falling: 1},
			func(l *Limits) **int64 { return &l.MemHigh }),
		{
			file: memoryLow, format: asSize, none: "0",
			get: func(l *Limits) string { return formatBytes(l.MemSoft) },
			set: func(l *Limits, text string) (err error) {
				if text != "0" {
					l.MemSoft, err = parseBytes(text)
				}
				return err
			},
		},
		{
			file: oomGroup, optional: true, detail: true, // since Linux 4.19
			get: func(l *Limits) string {
				if l.OOMGroup == nil {
					return ""
				}
				if *l.OOMGroup {
					return "1"
				}
				return "0"
			},
			set: func(l *Limits, text string) error {
				on := text == "1"
				l.OOMGroup = &on
				return nil
			},
		},
	},
	asked: func(l *Limits) bool { return l.Mem != nil || l.MemSwap != nil || l.MemHigh != nil || l.MemSoft != nil },
	check: checkMemory,
	usage: (*reader).readMemory,
	features: map[string]files{
		"memsw":      {memswLimit, swapMax},
		"softlimit":  {memorySoft, memoryLow},
		"swappiness": {swappinessFile, ""},
		"oomgroup":   {"", oomGroup},
		"peak":       {v1Memory.peak, v2Memory.peak},
		"swappeak":   {memswPeak, swapPeak},
		"reclaim":    {"", reclaimFile},
	},
}

const (
	memoryLimit    = "memory.limit_in_bytes"
	memswLimit     = "memory.memsw.limit_in_bytes"
	memswPeak      = "memory.memsw.max_usage_in_bytes"
	memorySoft     = "memory.soft_limit_in_bytes"
	memoryFailcnt  = "memory.failcnt"
	swappinessFile = "memory.swappiness"

	memoryMax    = "memory.max"
	swapMax      = "memory.swap.max"
	swapPeak     = "memory.swap.peak" // since Linux 6.5
	memoryHigh   = "memory.high"
	memoryLow    = "memory.low"
	oomGroup     = "memory.oom.group"
	memoryEvents = "memory.events"
)

func limitOfMem(l *Limits) **int64     { return &l.Mem }
func limitOfMemSwap(l *Limits) **int64 { return &l.MemSwap }
func limitOfMemSoft(l *Limits) **int64 { return &l.MemSoft }

// memoryFiles are the counter files of one version, and the keys in stat.
type memoryFiles struct {
	current, peak, limit, stat string
	anon, shmem, file, faults  string
}

var (
	v1Memory = memoryFiles{
		current: "memory.usage_in_bytes", peak: "memory.max_usage_in_bytes", limit: memoryLimit,
		stat: "memory.stat", anon: "total_rss", shmem: "total_shmem", file: "total_cache", faults: "total_pgmajfault",
	}
	v2Memory = memoryFiles{
		current: "memory.current", peak: "memory.peak", limit: memoryMax, // the peak since Linux 5.19
		stat: "memory.stat", anon: "anon", shmem: "shmem", file: "file", faults: "pgmajfault",
	}
)

// memory returns the counter files of d's version.
func (d directory) memory() *memoryFiles {
	if d.h.v2 {
		return &v2Memory
	}
	return &v1Memory
}

func checkMemory(j *Job, l *Limits) error {
	for _, limit := range []struct {
		name  string
		bytes *int64
	}{{"memory", l.Mem}, {"memory and swap", l.MemSwap}, {memoryHigh, l.MemHigh}, {"soft memory", l.MemSoft}} {
		if limit.bytes != nil && *limit.bytes < 0 {
			return fmt.Errorf("limit of %s: %d: negative", limit.name, *limit.bytes)
		}
	}
	if l.MemSwap != nil {
		if l.Mem == nil {
			l.Mem = l.MemSwap
		}
		if *l.MemSwap < *l.Mem {
			return fmt.Errorf("memory and swap (%d bytes) below memory alone (%d bytes)", *l.MemSwap, *l.Mem)
		}
	}
	if d, ok := j.with("memory"); ok && l.MemHigh != nil && !d.h.v2 {
		return fmt.Errorf("%s needs memory on cgroup v2: %w", memoryHigh, ErrUnsupported)
	}
	return nil
}

func (r *reader) readMemory(u *Usage) {
	if r.dir.h.v2 {
		r.readMemoryV2(u)
	} else {
		r.readMemoryV1(u)
	}
	if s := r.sample(); s != nil {
		u.Anon, u.Shmem, u.File, u.MajorFaults = &s.anon, &s.shmem, &s.file, s.faults
	}
	r.readPeaks(u)
}

func (r *reader) readMemoryV1(u *Usage) {
	u.MemSwapPeak = r.number(memswPeak)
	u.MemLimit, u.MemSwapLimit = r.limit(memoryLimit), r.limit(memswLimit)
	u.MemFailcnt, u.MemSwapFailcnt = r.number(memoryFailcnt), r.number("memory.memsw.failcnt")
	u.OOMKills = r.oomKills()
}

func (r *reader) readMemoryV2(u *Usage) {
	u.MemLimit = r.limit(memoryMax)
	if swap := r.limit(swapMax); swap != nil && u.MemLimit != nil {
		both := *swap + *u.MemLimit
		u.MemSwapLimit = &both
	}
	if mem, swap := r.number(v2Memory.peak), r.number(swapPeak); mem != nil && swap != nil {
		both := *mem + *swap
		u.MemSwapPeak = &both
	}
	m := r.keyed(memoryEvents) // hierarchical: includes events below the job
	u.OOMKills, u.OwnOOM, u.MemFailcnt = field(m, "oom_kill"), field(m, "oom"), field(m, "max")
	u.MemSwapFailcnt = field(r.keyed("memory.swap.events"), "max")
}

// oomKills returns how many processes the kernel has killed in the directory and below. It is nil
// if this kernel does not count them. On v1 a kill counts only in the victim's own cgroup.
func (r *reader) oomKills() *int64 {
	if r.dir.h.v2 {
		return field(r.keyed(memoryEvents), "oom_kill")
	}
	var sum *int64
	root := r.dir
	err := root.walk(func(d directory) error {
		r.dir = d
		if n := field(r.keyed("memory.oom_control"), "oom_kill"); n != nil { // since Linux 4.13
			if sum == nil {
				sum = new(int64)
			}
			*sum += *n
		}
		return nil
	})
	r.dir = root
	if err != nil && !gone(err) {
		r.errs = append(r.errs, err)
	}
	return sum
}
