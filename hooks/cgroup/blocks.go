package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/placement"
)

// A job that requests blocks gets whole blocks: their cpus, memory and devices. Its other requests
// may be smaller, since PBS itself adds ncpus=1, but not larger. Jobs with and without blocks can
// share a host. A block is free if no job holds the block or any cpu or device in it.

// blocksOf returns how many blocks the chunks of this host request. It takes the same arguments and
// returns the same errors as wantsOf.
func blocksOf(chunks []pbs.VnodeChunk, here []int, job *hostapi.Job) (int, error) {
	sum := 0
	for _, c := range pbs.Pick(chunks, here) {
		n, err := countOf(c.Resources, "blocks")
		if err != nil {
			return 0, fmt.Errorf("vnode %s: %w", c.Vnode, err)
		}
		sum += n
	}
	n, err := countOfJob(job.ResourceList, chunks, "blocks")
	return sum + n, err
}

// blockShare is the total of a job's blocks.
type blockShare struct {
	numbers    []int
	cpus, mems kernfs.IDSet
	ncpus      int // as PBS counts them
	mem        pbs.Size
	devices    []string // IDs
}

// decideBlocks chooses blocks for a job that requests some, and changes the request to match their
// contents. For other jobs it returns nil.
func (p *policy) decideBlocks(h host, a *ask, others []holding) (*blockShare, error) {
	if a.blocks == 0 || h.devices == nil {
		return nil, nil
	}
	n := p.Devices.Blocks
	if a.blocks > n {
		return nil, beyond("%w", &placement.ShortageError{Resource: "blocks", Want: int64(a.blocks), Have: int64(n)})
	}
	// Only the inventory counts, because all jobs must see the same blocks.
	req := placement.Request{
		Allowed: h.cpus, UseHyperthreads: p.Cpuset.UseHyperthreads, MemFences: p.Cpuset.MemFences,
		Devices: h.devices.Devices, Mem: p.memTotal(h.node),
	}
	blocks, err := placement.Blocks(h.node, req, n)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "devices.blocks: %w", err)
	}
	var taken, keep []int
	var cpus kernfs.IDSet
	for _, o := range others {
		cpus = cpus.Union(o.limits.CPUs)
		if o.grant != nil && o.limits.CPUs.IsEmpty() { // without cpusets, only the block numbers tell
			taken = append(taken, o.grant.Blocks...)
		}
	}
	cpus = cpus.Minus(a.had.CPUs) // a job may keep cpus that it shares with a suspended one
	held := heldDevices(req.Devices, others)
	for i, b := range blocks {
		if !b.CPUs.Intersect(cpus).IsEmpty() || slices.ContainsFunc(b.Devices,
			func(id string) bool { return held[id] > 0 }) {
			taken = append(taken, i)
		}
		if a.hadGrant != nil && slices.Contains(a.hadGrant.Blocks, i) {
			keep = append(keep, i)
		}
	}
	numbers, err := placement.ChooseBlocks(blocks, taken, keep, a.blocks)
	var short *placement.ShortageError
	if errors.As(err, &short) {
		return nil, hostapi.Errorf(hostapi.KindBusy, "%w%s", err, heldBy("blocks", others))
	}
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	got := &blockShare{numbers: numbers}
	for _, i := range numbers {
		b := blocks[i]
		got.cpus, got.mems = got.cpus.Union(b.CPUs), got.mems.Union(b.Mems)
		got.mem, got.devices = got.mem+pbs.Size(b.Mem), append(got.devices, b.Devices...)
	}
	got.mem = pbs.Size(wholePages(int64(got.mem)))
	got.ncpus = p.countCPUs(h, got.cpus)
	return got, a.become(h, got)
}

// become changes the request to the contents of the blocks. It fails if the job requested more.
func (a *ask) become(h host, blocks *blockShare) error {
	more := func(resource string, want, have any) error {
		return beyond("%s requested (%v) exceeds that of blocks=%d (%v)", resource, want, a.blocks, have)
	}
	if a.NCPUs > blocks.ncpus {
		return more("ncpus", a.NCPUs, blocks.ncpus)
	}
	if a.Mem != nil && *a.Mem > blocks.mem {
		return more("mem", a.Mem.KB(), blocks.mem.KB())
	}
	inside := placement.Request{Wants: a.wants}
	for _, d := range h.devices.Devices {
		if slices.Contains(blocks.devices, d.ID) {
			inside.Devices = append(inside.Devices, d)
		}
	}
	if _, err := placement.Place(h.node, inside); err != nil {
		return beyond("blocks=%d: %w", a.blocks, err)
	}
	mem := blocks.mem
	if a.Vmem != nil { // vmem limits mem as well
		mem = min(mem, *a.Vmem)
	}
	a.NCPUs, a.Mem = blocks.ncpus, &mem
	return nil
}
