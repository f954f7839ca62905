package main

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/placement"
	"github.com/hookhost/hookhost/internal/topology"
)

// At exechost_startup PBS gets resources_available of this host's vnodes (openpbs pbs_cgroups.PY,
// create_vnodes). The figures are those that begin uses. So a job that requests everything a vnode
// has is accepted on an otherwise empty host. It is also accepted beside jobs that request no more
// than the other vnodes have.

// offer holds the resources of a vnode for jobs. All amounts except ncpus are in bytes.
type offer struct {
	ncpus            int
	mem, vmem, hpmem int64
	cgswap           bool // PBS also gets swap as a separate resource
}

func (o offer) resources() hostapi.Resources {
	r := hostapi.Resources{
		"ncpus": strconv.Itoa(o.ncpus), "mem": pbs.Size(o.mem).KB(), "vmem": pbs.Size(o.vmem).KB(),
		"hpmem": pbs.Size(o.hpmem).KB(),
	}
	if o.cgswap {
		r["cgswap"] = pbs.Size(o.vmem - o.mem).KB()
	}
	return r
}

// hugeByNUMA returns how many huge pages of the default size each NUMA node has, in bytes.
func hugeByNUMA(sys *kernfs.FS, node *topology.Node, all topology.HugePages) (map[int]int64, error) {
	by := map[int]int64{}
	for _, n := range node.NUMA {
		there, err := topology.NUMAHugePages(sys, n.ID)
		if err != nil {
			return nil, err
		}
		if by[n.ID] = there[all.Default]; there == nil && len(node.NUMA) == 1 {
			by[n.ID] = all.Total[all.Default]
		}
	}
	return by, nil
}

// vnodes returns the natural vnode, called name. With vnode_per_numa_node it adds one for each NUMA
// node with resources for jobs. In that case the natural one has none, so that nothing is counted
// twice. known holds the vnodes as PBS knows them, and site those that the site has defined.
func (p *policy) vnodes(h host, huge map[int]int64, name, vntype string,
	known map[string]*hostapi.Vnode, site []*hostapi.Vnode) map[string]*hostapi.Vnode {
	sharing := ""
	if natural := known[name]; natural != nil {
		sharing = natural.Sharing
	}
	all := map[string]*hostapi.Vnode{}
	add := func(name string, o offer) {
		v := &hostapi.Vnode{ResourcesAvailable: o.resources()}
		if p.Vnodes.PropagateVntype && vntype != "" {
			v.ResourcesAvailable["vntype"] = vntype
		}
		all[name] = v
	}
	if !p.Vnodes.PerNUMANode {
		add(name, p.offer(h).without(known[name], site))
		return all
	}
	add(name, offer{cgswap: p.reportsCgswap()})
	for _, n := range h.node.NUMA {
		o := p.numaOffer(h, huge, n)
		if o.ncpus == 0 && !n.HasMemory { // some machines have dozens of these for the memory of GPUs
			continue
		}
		vnode := vnodeName(name, n.ID)
		add(vnode, o)
		all[vnode].Sharing = sharing
	}
	return all
}

func vnodeName(host string, numa int) string { return fmt.Sprintf("%s[%d]", host, numa) }

// offer returns the resources of the whole host for jobs.
func (p *policy) offer(h host) offer {
	return p.offered(h, h.cpus, p.memTotal(h.node), p.swapTotal(h.node), p.hugeOffered(h))
}

// numaOffer returns the resources of a NUMA node for jobs. The host's memory reserve and its swap
// are divided among the NUMA nodes by their memory.
func (p *policy) numaOffer(h host, huge map[int]int64, n topology.NUMANode) offer {
	var sum int64
	for _, o := range h.node.NUMA {
		sum += o.MemTotal
	}
	// The NUMA nodes' figures need not add up to the host's: the kernel may count memory in one
	// that it leaves out of the other.
	sum = max(sum, h.node.MemTotal)
	return p.offered(h, cpusOf(h.node, n.ID).Intersect(h.cpus), proRata(p.memTotal(h.node), n.MemTotal, sum),
		proRata(p.swapTotal(h.node), n.MemTotal, sum),
		proRata(p.hugeOffered(h), huge[n.ID], h.hugePages.Total[h.hugePages.Default]))
}

// offered returns an offer of the amounts that begin would assign. The hidden amounts make up for
// values that PBS rounds.
func (p *policy) offered(h host, cpus kernfs.IDSet, mem, swap, huge int64) offer {
	const mb = 1 << 20
	down := func(n int64) int64 { return max(0, n) / mb * mb }
	o := offer{ncpus: p.countCPUs(h, cpus), mem: down(mem - int64(p.Memory.Hidden)),
		hpmem: huge - huge%max(h.hugePages.Default, mb)}
	o.cgswap = p.reportsCgswap()
	o.vmem = o.mem // if swap is not limited, vmem equals mem
	if p.Memsw.Enabled && h.has("memsw") {
		// Not below mem: a job may ask for both.
		o.vmem = max(o.mem, down(mem+swap-int64(p.Memory.Hidden)-int64(p.Memsw.Hidden)))
	}
	return o
}

// reportsCgswap reports whether PBS gets swap as a separate resource.
func (p *policy) reportsCgswap() bool { return p.Memsw.Enabled && p.Memsw.ManageCgswap }

// countCPUs returns the greatest ncpus that a job can get from cpus on an empty host.
func (p *policy) countCPUs(h host, cpus kernfs.IDSet) int {
	_, err := placement.Place(h.node, placement.Request{
		NCPUs: cpus.Len() + 1, Allowed: cpus, UseHyperthreads: p.Cpuset.UseHyperthreads,
		NCPUsAreCores: p.Cpuset.NCPUsAreCores,
	})
	if short, ok := errors.AsType[*placement.ShortageError](err); ok {
		return int(short.Have)
	}
	return 0
}

// cpusOf returns the cpus of the cores whose first cpu is in a NUMA node. Placement counts them the
// same way.
func cpusOf(n *topology.Node, numa int) kernfs.IDSet {
	var cpus kernfs.IDSet
	for _, c := range n.CPUs {
		if c.ID == c.Core && c.NUMA == numa {
			cpus = cpus.Union(c.Siblings)
		}
	}
	return cpus
}

// hugeOffered returns the huge pages of the default size to report to PBS, in bytes. Without
// [hugetlb] that is 0, because PBS would promise the same pages to several jobs.
func (p *policy) hugeOffered(h host) int64 {
	if !p.Hugetlb.Enabled || h.hugePages.Default == 0 {
		return 0
	}
	return max(0, p.hugeTotal(h, h.hugePages.Default)-int64(p.Hugetlb.Hidden))
}

// proRata returns the share of total for a part of the whole, rounded down.
func proRata(total, part, whole int64) int64 {
	if total <= 0 || part <= 0 || whole <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(total), uint64(min(part, whole)))
	n, _ := bits.Div64(hi, lo, uint64(whole))
	return int64(n)
}

// vnodesOfHost returns the names of all vnodes of this host: those that PBS knows, and those that
// startup reported.
func (p *policy) vnodesOfHost(node *topology.Node, name string, known map[string]*hostapi.Vnode) []string {
	names := map[string]bool{name: true}
	for v := range known {
		names[v] = true
	}
	if p.Vnodes.PerNUMANode {
		for _, n := range node.NUMA {
			if n.HasMemory || !n.CPUs.IsEmpty() {
				names[vnodeName(name, n.ID)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// publish adds this host's vnodes to an outcome.
func (h *hook) publish(req *hostapi.Request, out *hostapi.Outcome) (err error) {
	defer func() {
		if err != nil {
			err = hostapi.Errorf(hostapi.KindNode, "publish vnodes: %w", err)
		}
	}()
	there, err := h.survey()
	if err != nil {
		return err
	}
	huge, err := hugeByNUMA(h.roots.Sys, h.node(), there.hugePages)
	if err != nil {
		return err
	}
	vntype := ""
	if natural := req.VnodeList[req.Node]; natural != nil {
		vntype = natural.ResourcesAvailable["vntype"]
	}
	noted, err := h.kept.Vnodes()
	if err != nil {
		return err
	}
	stale, site := h.policy.othersVnodes(h.node(), req.Node, req.VnodeList, noted)
	out.Vnodes = h.policy.vnodes(there, huge, req.Node, vntype, req.VnodeList, site)
	maps.Copy(out.Vnodes, stale)
	if len(req.VnodeList) == 0 { // the event is not from PBS
		return nil
	}
	return h.kept.SetVnodes(toNote(out.Vnodes, req.Node, stale, noted))
}
