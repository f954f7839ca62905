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

// A job that asks for blocks gets whole ones: their cpus, their memory and their devices. Its other
// requests may be less, since PBS itself adds ncpus=1, but not more. Jobs with blocks and jobs
// without can be on one host. A block is free when no job holds it, or a cpu or a device of it.

// blocksOf returns how many blocks the chunks of this host ask for. Arguments and errors are as
// those of wantsOf.
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

// blockShare is what the blocks of a job are together.
type blockShare struct {
	numbers    []int
	cpus, mems kernfs.IDSet
	ncpus      int // as PBS counts them
	mem        pbs.Size
	devices    []string // IDs
}

// decideBlocks chooses blocks for a job that asks for some, and makes it ask for what is in them;
// else it returns nil.
func (p *policy) decideBlocks(h host, a *ask, others []holding) (*blockShare, error) {
	if a.blocks == 0 || h.devices == nil {
		return nil, nil
	}
	n := p.Devices.Blocks
	if a.blocks > n {
		return nil, beyond("%w", &placement.ShortageError{Resource: "blocks", Want: int64(a.blocks), Have: int64(n)})
	}
	// The inventory alone counts: the blocks must be the same for all jobs.
	req := placement.Request{
		Allowed: h.cpus.Minus(p.exclude), UseHyperthreads: p.Cpuset.UseHyperthreads, MemFences: p.Cpuset.MemFences,
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
		if o.grant != nil && o.limits.CPUs.IsEmpty() { // nothing but their numbers tells what it has
			taken = append(taken, o.grant.Blocks...)
		}
	}
	cpus = cpus.Minus(a.had.CPUs) // which it may keep beside one that was suspended
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

// become makes the job ask for what is in its blocks. become fails when it asked for more.
func (a *ask) become(h host, blocks *blockShare) error {
	more := func(resource string, want, have any) error {
		return beyond("%s requested (%v) exceeds what is in %d of the blocks (%v)", resource, want, a.blocks, have)
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
		return beyond("of %d of the blocks: %w", a.blocks, err)
	}
	mem := blocks.mem
	if a.Vmem != nil { // which bounds mem as well
		mem = min(mem, *a.Vmem)
	}
	a.NCPUs, a.Mem = blocks.ncpus, &mem
	return nil
}
