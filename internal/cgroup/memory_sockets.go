package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
)

// v1 files for the buffers of TCP and UDP sockets.
const (
	socketUse   = "memory.kmem.tcp.usage_in_bytes"
	socketLimit = "memory.kmem.tcp.limit_in_bytes"
)

// countSockets makes v1 count the buffers of TCP and UDP sockets in d, or in its child of that
// name. The kernel starts counting when a limit is written, even one that limits nothing
// (mm/memcontrol-v1.c, memcg_update_tcp_max). It does not count older sockets, nor those of a child
// where counting was not started.
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
