package pbs

import "os"

// chunksOn returns the indices of the chunks on the host of that name, or nil. On the host are its
// natural vnode, which has its name, each vnode host[n], and all vnodes that exec_host2 places
// there, whatever their names. The first of these names that matches decides:
//
//  1. the natural vnode, or the host of exec_host2;
//  2. that host with one name as the short form of the other ("n1", "n1.cluster");
//  3. a vnode host[n], then likewise with a short form. Such a pbs_mom has another name than its
//     host (PBS_MOM_NODE_NAME).
func chunksOn(chunks []VnodeChunk, host string) []int {
	for _, matches := range []func(VnodeChunk) bool{
		func(c VnodeChunk) bool { return c.Vnode == host || c.Host == host },
		func(c VnodeChunk) bool { return SameHost(c.Host, host) },
		func(c VnodeChunk) bool { return hostOf(c.Vnode) == host },
		func(c VnodeChunk) bool { return SameHost(hostOf(c.Vnode), host) },
	} {
		if here := withTheirMoMs(chunks, matches); here != nil {
			return here
		}
	}
	return nil
}

// ChunksHere is chunksOn for this host and a job from pbs_mom. node is pbs_mom's name, and head
// means that this is the job's mother superior. If no name matches, three other facts decide. The
// mother superior has the first chunk, exec_host2 has the machine's own name, or the job has one
// host.
func ChunksHere(chunks []VnodeChunk, node string, head bool) []int {
	if here := chunksOn(chunks, node); here != nil {
		return here
	}
	of := func(is func(VnodeChunk) bool) []int {
		return withTheirMoMs(chunks, func(c VnodeChunk) bool { return c.MoM != "" && is(c) })
	}
	if head {
		return of(func(c VnodeChunk) bool { return c.MoM == chunks[0].MoM })
	}
	machine, _ := os.Hostname()
	if here := of(func(c VnodeChunk) bool { return SameHost(c.Host, machine) }); here != nil {
		return here
	}
	if here := of(func(c VnodeChunk) bool { return c.MoM == chunks[0].MoM }); len(here) == len(chunks) {
		return here
	}
	return nil
}

// withTheirMoMs returns the indices of the chunks that match, and of all other chunks of their
// pbs_moms.
func withTheirMoMs(chunks []VnodeChunk, matches func(VnodeChunk) bool) []int {
	var here []int
	moms := map[string]bool{}
	for _, c := range chunks {
		if c.MoM != "" && matches(c) {
			moms[c.MoM] = true
		}
	}
	for i, c := range chunks {
		if moms[c.MoM] || matches(c) {
			here = append(here, i)
		}
	}
	return here
}
