package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/placement"
	"github.com/hookhost/hookhost/internal/proc"
)

// ask is a job's request on this host.
type ask struct {
	pbs.HostShare
	pids     *int64             // the job's limit on its tasks (-l pids=N); nil if none
	oomGroup *bool              // -l oom_group=false; nil if not given
	huge     map[int64]pbs.Size // hpmem_2mb and so on, by page size in bytes
	numa     map[int]int        // ncpus by NUMA node, from vnodes host[n]; nil if there are none
	notes    []string           // parts of the request that cannot be met
	exclhost bool               // no other job may use its hosts (-l place=exclhost)

	chunks []pbs.VnodeChunk // of all hosts
	here   []int            // the indices of this host's chunks

	wants  []placement.Want // devices; see addWants
	blocks int              // parts of the host

	// had is what a job that is being resized already holds: its cpus, and otherwise what it asked
	// for.
	had      cgroup.Limits
	hadGrant *inventory.Grant // nil without devices

	// pmem is the most memory that each process of the job may hold, and pvmem the most address
	// space. 0 means not requested.
	pmem, pvmem pbs.Size
	rlimits     map[string]proc.Rlimit // by name
}

// askOf returns what a job asks for on the host node, without devices and blocks.
func askOf(job *hostapi.Job, node string) (ask, error) {
	chunks := []pbs.VnodeChunk{{Vnode: node, Host: node, Resources: job.ResourceList}}
	if job.ExecVnode != "" {
		var err error
		if chunks, err = pbs.JobChunks(job.ExecVnode, job.ExecHost2); err != nil {
			return ask{}, err
		}
	}
	here := pbs.ChunksHere(chunks, node, job.MotherSuperior)
	if here == nil {
		return ask{}, fmt.Errorf("exec_vnode on %s, exec_host2 %s: %w",
			shownValue(node), shownValue(job.ExecHost2), pbs.ErrNotOnHost)
	}
	share, err := pbs.Share(pbs.Pick(chunks, here))
	if err != nil {
		return ask{}, err
	}
	place := strings.Split(job.ResourceList["place"], ":")
	a := ask{HostShare: share, chunks: chunks, here: here, exclhost: slices.Contains(place, "exclhost")}
	if note := micsNote(share.Other); note != "" {
		a.notes = append(a.notes, note)
	}
	if err := a.addVmem(job, chunks); err != nil {
		return ask{}, err
	}
	if a.numa, err = numaOf(pbs.Pick(chunks, here), node); err != nil {
		return ask{}, err
	}
	if err := a.addHuge(); err != nil {
		return ask{}, err
	}
	if a.oomGroup, err = oomGroupOf(job); err != nil {
		return ask{}, err
	}
	if a.pids, err = pidsOf(job); err != nil {
		return ask{}, err
	}
	if a.pmem, err = sizeAsked(job, "pmem"); err != nil {
		return ask{}, err
	}
	if a.pvmem, err = sizeAsked(job, "pvmem"); err != nil {
		return ask{}, err
	}
	a.rlimits, err = rlimitsOf(job)
	return a, err
}

// addWants adds the devices and the blocks that the job asks for. resources are those of configured
// devices. Call it only where hookhost manages devices. Elsewhere gpus, blocks and the like belong
// to the site and can have any value.
func (a *ask) addWants(job *hostapi.Job, resources []string) (err error) {
	a.wants, err = wantsOf(a.chunks, a.here, job, resources)
	if err == nil {
		a.blocks, err = blocksOf(a.chunks, a.here, job)
	}
	return err
}

// sizeAsked returns a size from the job's own list. PBS writes 0 for a size that was not requested.
func sizeAsked(job *hostapi.Job, name string) (pbs.Size, error) {
	text, ok := job.ResourceList[name]
	if !ok {
		return 0, nil
	}
	size, err := pbs.ParseSize(text)
	if err != nil {
		return 0, fmt.Errorf("resource_list %s=%s: %w", name, text, err)
	}
	return size, nil
}

// addVmem adds vmem from the job's own list. PBS does not schedule vmem by default, and then it
// appears only there (openpbs-observed: vnode_list). With several hosts nothing says how much each
// one has.
func (a *ask) addVmem(job *hostapi.Job, chunks []pbs.VnodeChunk) error {
	if a.Vmem != nil {
		return nil
	}
	size, err := sizeAsked(job, "vmem")
	if err != nil || size == 0 {
		return err
	}
	for _, c := range chunks {
		if c.Host != chunks[0].Host {
			const note = "vmem=%s is not enforced: exec_vnode does not say how much of it each host has"
			a.notes = append(a.notes, fmt.Sprintf(note, size.KB()))
			return nil
		}
	}
	a.Vmem = &size
	return nil
}

// hpmemOf starts the names of resources that include the size of their huge pages: hpmem_2mb,
// hpmem_1gb.
const hpmemOf = "hpmem_"

// addHuge adds huge pages of named sizes. A resource that names no size belongs to the site.
func (a *ask) addHuge() error {
	for name, v := range a.Other {
		text, ok := strings.CutPrefix(name, hpmemOf)
		page, err := pbs.ParseSize(text)
		if !ok || err != nil || page <= 0 {
			continue
		}
		size, err := pbs.ParseSize(v)
		if err != nil {
			return fmt.Errorf("resource %s=%s: %w", name, v, err)
		}
		if a.huge == nil {
			a.huge = map[int64]pbs.Size{}
		}
		a.huge[int64(page)] = plus(a.huge[int64(page)], size)
	}
	return nil
}

// plus adds sizes that are not negative. Instead of overflowing it returns the largest size.
func plus(a, b pbs.Size) pbs.Size {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// oomGroupOf returns the job's choice of memory.oom.group. It accepts the values that PBS accepts
// for a boolean (openpbs attr_fn_b.c, is_true_or_false).
func oomGroupOf(job *hostapi.Job) (*bool, error) {
	v, ok := job.ResourceList["oom_group"]
	if !ok {
		return nil, nil
	}
	on := false
	switch strings.ToLower(v) {
	case "true", "t", "y", "1":
		on = true
	case "false", "f", "n", "0":
	default:
		return nil, fmt.Errorf("resource_list oom_group=%s: neither true nor false", v)
	}
	return &on, nil
}

// pidsOf returns the job's own limit on its tasks.
func pidsOf(job *hostapi.Job) (*int64, error) {
	v, ok := job.ResourceList["pids"]
	if !ok {
		return nil, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("resource_list pids=%s: not a number of 1 or more", v)
	}
	return &n, nil
}

// micsNote tells a job that asks for nmics that it gets none, because such devices no longer exist.
func micsNote(other map[string]string) string {
	if n := other["nmics"]; n != "" && strings.Trim(n, "0") != "" {
		return fmt.Sprintf("nmics=%s is not given: hookhost knows no such devices", shownValue(n))
	}
	return ""
}
