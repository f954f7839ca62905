// Package inventory knows the node's devices: what there is, and which job was given what.
//
// Finding out what there is may take seconds and may hang (a driver's library is asked), so it is never done in the path
// of an event: Scan's result is kept in a file, with what it depended on, and whoever decides reads that. What a job was
// given stands on its cgroup (Grant), like everything that is taken.
package inventory

import (
	"time"

	"github.com/hookhost/hookhost/internal/topology"
)

// Inventory is what was found on one node. It is a value: nothing changes it after Scan.
type Inventory struct {
	Devices []topology.Device `json:"devices"`
	// Shared are nodes that each holder of a device of the vendor needs beside it (nvidiactl, nvidia-uvm, kfd), by vendor.
	Shared map[string][]topology.DeviceNode `json:"shared,omitempty"`
	// Sources tells for each source that was asked ("nvml", "nvidia", "amd", "intel", "habana", "device") what came of it.
	// "nvml" or "nvidia" (the driver's own files) has NVIDIA's GPUs; both are there when NVML failed and the other stood in.
	Sources []Source `json:"sources"`
	// Signature is what the result depends on; the same signature means that a scan would find the same.
	Signature string    `json:"signature"`
	Found     time.Time `json:"found"`
	// Numbering is what the numbers of the nodes depend on, of what the function Numbering returns: while all of it holds they
	// stand for the same devices.
	Numbering []string `json:"numbering,omitempty"`
}

// Source is what one way of finding devices came to. An empty Error with Count 0 is: there are none.
type Source struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Note  string `json:"note,omitempty"`  // what is degraded, and what would mend it
	Error string `json:"error,omitempty"` // it failed: what there is is not known
}

// Grant is what a job was given. It is complete in itself, so that a device that vanishes meanwhile, or an inventory that
// is made anew, changes nothing for the job.
type Grant struct {
	Devices []topology.Device `json:"devices"` // without their Links
	// Coming are devices that the job is to get when its resize is over: nobody else's, and not in its filter.
	Coming []topology.Device `json:"coming,omitempty"`
	// Leaving are devices that the job has given up and that are in its filter still: nobody else's until hook devices has
	// taken them out.
	Leaving []topology.Device     `json:"leaving,omitempty"`
	Shared  []topology.DeviceNode `json:"shared,omitempty"` // of the vendors of Devices
	Blocks  []int                 `json:"blocks,omitempty"` // numbers of the blocks that it holds; nil when it did not ask for any
}

// Marker is the part of a cgroup.Job that a grant is kept on.
type Marker interface {
	Mark(name string) ([]byte, error)
	SetMark(name string, value []byte) error
}
