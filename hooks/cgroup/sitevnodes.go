package main

import (
	"slices"
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/topology"
)

// MoM lists vnodes that startup does not report, for two reasons. First, the site may have defined
// them (pbs_mom -s insert). They divide up a part of the host, and the natural vnode has the rest.
//
// Second, an earlier startup may have reported them, for example with vnode_per_numa_node. A hook
// cannot delete a vnode, and MoM keeps reporting it until MoM restarts (openpbs
// src/resmom/mom_server.c, IS_HOOK_ACTION_ACK). Such stale vnodes are reported as having nothing.

// othersVnodes returns what to report for stale vnodes, and the vnodes that the site has defined.
// Stale vnodes were noted by an earlier startup and are not reported by this one. If a noted vnode
// has different figures now, the site has defined it.
func (p *policy) othersVnodes(node *topology.Node, name string, known map[string]*hostapi.Vnode,
	noted map[string]map[string]string) (stale map[string]*hostapi.Vnode, site []*hostapi.Vnode) {
	reported := p.vnodesOfHost(node, name, nil)
	for vnode, v := range known {
		before, isNoted := noted[vnode]
		switch {
		case v == nil || slices.Contains(reported, vnode):
		case isNoted && v.ResourcesAvailable["ncpus"] == before["ncpus"] &&
			v.ResourcesAvailable["mem"] == before["mem"]:
			if stale == nil {
				stale = map[string]*hostapi.Vnode{}
			}
			stale[vnode] = &hostapi.Vnode{ResourcesAvailable: nothingOf(v.ResourcesAvailable)}
		default:
			site = append(site, v)
		}
	}
	return stale, site
}

// toNote returns the vnodes that the next startup needs to know: those reported now, and the stale
// ones until MoM lists them as having nothing.
func toNote(reported map[string]*hostapi.Vnode, natural string, stale map[string]*hostapi.Vnode,
	noted map[string]map[string]string) map[string]map[string]string {
	note := map[string]map[string]string{}
	for name, v := range reported {
		switch {
		case stale[name] != nil:
			note[name] = noted[name]
		case name != natural:
			note[name] = v.ResourcesAvailable
		}
	}
	return note
}

// nothingOf returns 0 for each amount and leaves out texts.
func nothingOf(available hostapi.Resources) hostapi.Resources {
	nothing := hostapi.Resources{}
	for name, value := range available {
		if _, err := strconv.ParseFloat(value, 64); err == nil {
			nothing[name] = "0"
		} else if size, err := pbs.ParseSize(value); err == nil {
			nothing[name] = (0 * size).KB()
		}
	}
	return nothing
}

// without returns the rest of o after the site's vnodes have been subtracted, if these have cpus or
// memory. The natural vnode does not get more than its definition gives it.
func (o offer) without(natural *hostapi.Vnode, site []*hostapi.Vnode) offer {
	var theirs offer
	for _, v := range site {
		has := offerOf(v)
		theirs.ncpus += has.ncpus
		theirs.mem += has.mem
		theirs.vmem += max(has.vmem, has.mem)
		theirs.hpmem += has.hpmem
	}
	if theirs.ncpus == 0 && theirs.mem == 0 {
		return o
	}
	o.ncpus = max(0, o.ncpus-theirs.ncpus)
	o.mem, o.vmem, o.hpmem = max(0, o.mem-theirs.mem), max(0, o.vmem-theirs.vmem), max(0, o.hpmem-theirs.hpmem)
	if natural == nil {
		return o
	}
	given, most := natural.ResourcesAvailable, offerOf(natural)
	if given["ncpus"] != "" {
		o.ncpus = min(o.ncpus, most.ncpus)
	}
	if given["mem"] != "" {
		o.mem = min(o.mem, most.mem)
	}
	if given["vmem"] != "" {
		o.vmem = min(o.vmem, most.vmem)
	} else if o.mem == 0 {
		o.vmem = 0
	}
	if given["hpmem"] != "" {
		o.hpmem = min(o.hpmem, most.hpmem)
	}
	o.vmem = max(o.vmem, o.mem)
	return o
}

// offerOf returns the resources of a vnode. An amount that cannot be read counts as 0.
func offerOf(v *hostapi.Vnode) offer {
	size := func(name string) int64 {
		n, _ := pbs.ParseSize(v.ResourcesAvailable[name])
		return int64(n)
	}
	n, _ := strconv.Atoi(v.ResourcesAvailable["ncpus"])
	return offer{ncpus: n, mem: size("mem"), vmem: size("vmem"), hpmem: size("hpmem")}
}
