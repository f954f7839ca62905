package cgroup

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// The kernel memory that only a job itself can cause is in its sockets, pipes, page tables, stacks
// and other objects. The kernel charges that to the job. It also charges objects that cache files
// (dentries, inodes), which it frees when memory is short. Only memory that is certainly not of the
// second kind may count against a job.
//
// v2 distinguishes the two (cgroup-v2.rst, memory.stat). v1 does not. There, buffers of TCP and UDP
// have a separate counter, which is off unless somebody turns it on (see countSockets).

// kernelV2 returns the kernel memory in bytes that does not cache files, from memory.stat and
// memory.current. The key "kernel" exists since Linux 5.18. Before that, everything else is
// subtracted from all memory, including what cpus may have charged in advance and what counters may
// lag behind.
func kernelV2(stat map[string]uint64, current int64) int64 {
	n := func(key string) int64 { return int64(stat[key]) }
	if _, ok := stat["kernel"]; ok {
		return max(0, n("kernel")+n("sock")-n("slab_reclaimable"))
	}
	return max(0, current-n("anon")-n("file")-n("slab_reclaimable")-2*setAside)
}

// kernelV1 returns a lower bound of the job's kernel memory without caches of files, in bytes. It
// does not include sockets. It subtracts all such caches of the node from the job's kernel memory.
func (r *reader) kernelV1(proc *kernfs.FS) (int64, error) {
	all := r.number(v1Memory.kernel)
	if all == nil || *all == 0 {
		return 0, nil // not counted
	}
	caches, err := reclaimable(proc)
	return max(0, *all-caches), err
}

// reclaimable returns the node's kernel memory that the kernel can reclaim, in bytes. SReclaimable
// is part of KReclaimable, which exists since Linux 4.20.
func reclaimable(proc *kernfs.FS) (int64, error) {
	values, err := proc.Meminfo("meminfo", "KReclaimable", "SReclaimable")
	if err == nil && len(values) == 0 {
		err = &kernfs.ParseError{File: proc.Path("meminfo"), Text: "no SReclaimable", Err: ErrUnsupported}
	}
	return max(values["KReclaimable"], values["SReclaimable"]), err
}

// v1 files for the buffers of TCP and UDP sockets.
const (
	socketUse   = "memory.kmem.tcp.usage_in_bytes"
	socketLimit = "memory.kmem.tcp.limit_in_bytes"
)

// sockets returns the job's buffers of TCP and UDP sockets, in bytes, if they are counted
// separately. It is 0 on v2, where memory includes them, and where nothing counts them.
func (r *reader) sockets() int64 {
	if r.dir.h.v2 {
		return 0
	}
	if n := r.number(socketUse); n != nil {
		return *n
	}
	return 0
}

// countSockets makes v1 count the buffers of TCP and UDP sockets in d, or in its child of that
// name. The kernel starts counting when a limit is written, even one that limits nothing
// (mm/memcontrol-v1.c, memcg_update_tcp_max). It does not count older sockets.
func (d directory) countSockets(child string) error {
	if d.h.v2 || !d.h.has("memory") {
		return nil
	}
	err := d.Write(child+socketLimit, "-1")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the kernel lacks it
	}
	if err != nil {
		return fmt.Errorf("count buffers of sockets: %w", err)
	}
	return nil
}
