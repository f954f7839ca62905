package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/placement"
	"github.com/hookhost/hookhost/internal/proc"
)

// ask holds a job's requests on this host.
type ask struct {
	pbs.HostShare
	list     hostapi.Resources  // the job's Resource_List; nil after begin or resize
	huge     map[int64]pbs.Size // hpmem_2mb and so on, by page size in bytes
	numa     map[int]int        // ncpus by NUMA node, from vnodes host[n]; nil without such vnodes
	notes    []string           // requests that cannot be met, explained to the job's owner
	exclhost bool               // -l place=exclhost: the job shares its hosts with no other

	chunks []pbs.VnodeChunk // of all hosts
	here   []int            // the indices of this host's chunks

	wants  []placement.Want // the requested devices; see addWants
	blocks int              // the requested number of blocks, which are parts of the host

	// had holds a job's current share while it is being resized. Its cpus are the assigned ones,
	// everything else is as requested.
	had      cgroup.Limits
	hadGrant *inventory.Grant // nil if it holds no devices

	// pmem and pvmem limit the memory and the address space of each process of the job. 0 means not
	// requested.
	pmem, pvmem pbs.Size
	rlimits     map[string]proc.Rlimit // by name
}

// askOf returns a job's requests on the host node, without devices and blocks.
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
			pbs.Shown(node), pbs.Shown(job.ExecHost2), pbs.ErrNotOnHost)
	}
	share, err := pbs.Share(pbs.Pick(chunks, here))
	if err != nil {
		return ask{}, err
	}
	place := strings.Split(job.ResourceList["place"], ":")
	a := ask{
		HostShare: share, list: job.ResourceList, exclhost: slices.Contains(place, "exclhost"),
		chunks: chunks, here: here,
	}
	if note := micsNote(share.Other); note != "" {
		a.notes = append(a.notes, note)
	}
	if a.numa, err = numaOf(pbs.Pick(chunks, here), node); err != nil {
		return ask{}, err
	}
	for _, r := range resources {
		if r.ask == nil {
			continue
		}
		if err := r.ask(&a, job); err != nil {
			return ask{}, err
		}
	}
	return a, nil
}

// addWants adds the devices and blocks that the job requests. resources are those of configured
// devices. Call it only where hookhost manages devices: elsewhere gpus, blocks and the like belong
// to the site and may have any value.
func (a *ask) addWants(job *hostapi.Job, resources []string) (err error) {
	a.wants, err = wantsOf(a.chunks, a.here, job, resources)
	if err == nil {
		a.blocks, err = blocksOf(a.chunks, a.here, job)
	}
	return err
}

// sizeAsked returns a size from the job's own resource list. PBS writes 0 for a size that was not
// requested.
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

// plus adds sizes that are not negative. Instead of overflowing it returns the largest size.
func plus(a, b pbs.Size) pbs.Size {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// micsNote returns a note for a job that requests nmics. It gets none, because such devices no
// longer exist.
func micsNote(other map[string]string) string {
	if n := other["nmics"]; n != "" && strings.Trim(n, "0") != "" {
		return fmt.Sprintf("nmics=%s is ignored: hookhost does not support such devices", pbs.Shown(n))
	}
	return ""
}
