package cgroup

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Kernel memory that a job alone can cause is what it has in sockets and pipes, and its page
// tables, stacks and other objects. The kernel charges it to the job, as it does objects that cache
// files (dentries, inodes), which it frees when memory is short. Only what is surely not of the
// second kind may count against a job.
//
// v2 tells the two apart (cgroup-v2.rst, memory.stat). v1 does not. TCP and UDP buffers are in
// a counter of their own there, which is off unless somebody has asked for it (see countSockets).

// kernelV2 returns the kernel memory in bytes that is no cache of files, from memory.stat and
// memory.current. The key "kernel" is there since Linux 5.18. Before that it is what is left of all
// memory, less what the cpus have set aside and what the counters may be behind.
func kernelV2(stat map[string]uint64, current int64) int64 {
	n := func(key string) int64 { return int64(stat[key]) }
	if _, ok := stat["kernel"]; ok {
		return max(0, n("kernel")+n("sock")-n("slab_reclaimable"))
	}
	return max(0, current-n("anon")-n("file")-n("slab_reclaimable")-2*setAside)
}

// kernelV1 returns the least that the job's kernel memory can be without caches of files, in bytes.
// Sockets are apart. The amount is all kernel memory of the job, less all such caches of the node.
func (r *reader) kernelV1(proc *kernfs.FS) (int64, error) {
	all := r.number(v1Memory.kernel)
	if all == nil || *all == 0 {
		return 0, nil // not counted
	}
	caches, err := reclaimable(proc)
	return max(0, *all-caches), err
}

// reclaimable is the kernel memory of the node that the kernel can have back, in bytes.
// SReclaimable is a part of KReclaimable, which is there since Linux 4.20.
func reclaimable(proc *kernfs.FS) (int64, error) {
	values, err := proc.Meminfo("meminfo", "KReclaimable", "SReclaimable")
	if err == nil && len(values) == 0 {
		err = &kernfs.ParseError{File: proc.Path("meminfo"), Text: "no SReclaimable", Err: ErrUnsupported}
	}
	return max(values["KReclaimable"], values["SReclaimable"]), err
}

// The files of v1 for the buffers of TCP and UDP sockets.
const (
	socketUse   = "memory.kmem.tcp.usage_in_bytes"
	socketLimit = "memory.kmem.tcp.limit_in_bytes"
)

// sockets is what the job has in buffers of TCP and UDP sockets, in bytes, beside all else. 0 on
// v2, where it is in all memory, and where nobody counts it.
func (r *reader) sockets() int64 {
	if r.dir.h.v2 {
		return 0
	}
	if n := r.number(socketUse); n != nil {
		return *n
	}
	return 0
}

// countSockets has v1 count the buffers of TCP and UDP sockets that are made in d, or in its child
// of that name. The kernel begins when a limit is written, also one that limits nothing
// (mm/memcontrol-v1.c, memcg_update_tcp_max). Sockets of before are not counted.
func (d directory) countSockets(child string) error {
	if d.h.v2 || !d.h.has("memory") {
		return nil
	}
	err := d.Write(child+socketLimit, "-1")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel without it
	}
	if err != nil {
		return fmt.Errorf("count buffers of sockets: %w", err)
	}
	return nil
}
