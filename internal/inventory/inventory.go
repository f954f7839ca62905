// Package inventory knows the node's devices: what there is, and which job was given what.
//
// A scan may take seconds and may hang, as it asks a driver's library. So it is never done in the
// path of an event. Scan's result is in a file, and decisions read that file. The grant of a job
// stands on its cgroup (Grant), like everything that is taken.
package inventory

import "github.com/hookhost/hookhost/internal/topology"

// Inventory is what was found on one node. An Inventory is a value: nothing changes it after Scan.
type Inventory struct {
	Devices []topology.Device `json:"devices"`
	// Shared are nodes that each holder of a device of the vendor needs beside it (nvidiactl,
	// nvidia-uvm, kfd), by vendor.
	Shared map[string][]topology.DeviceNode `json:"shared,omitempty"`
	// Sources are the results of the sources that were asked: "nvml", "nvidia", "amd", "intel",
	// "habana" and "device". "nvml" or "nvidia" (the driver's own files) has NVIDIA's GPUs; both
	// are there when NVML failed and the other stood in.
	Sources []Source `json:"sources"`
	// Numbering is the part of the function Numbering's result that the numbers of the nodes depend
	// on. The numbers stand for the same devices while all of it holds.
	Numbering []string `json:"numbering,omitempty"`
}

// Source is what one way of finding devices came to. An empty Error with Count 0 is: there are
// none.
type Source struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Note  string `json:"note,omitempty"`  // what is degraded, and what would mend it
	Error string `json:"error,omitempty"` // it failed: what there is is not known
}

// Grant is what a job was given. A Grant is complete in itself. A device that vanishes meanwhile,
// or an inventory that is made anew, changes nothing for the job.
type Grant struct {
	Devices []topology.Device `json:"devices"` // without their Links
	// Leaving are devices that the job has given up and that are in its filter still: nobody else's
	// until hook devices has taken them out.
	Leaving []topology.Device     `json:"leaving,omitempty"`
	Shared  []topology.DeviceNode `json:"shared,omitempty"` // of the vendors of Devices
	// numbers of the blocks that it holds; nil when it did not ask for any
	Blocks []int `json:"blocks,omitempty"`
	// Serial counts the job's grants, from 0. Hook devices notes with it which of them the filter
	// follows: see Applied.
	Serial int `json:"serial,omitempty"`
}

// Marker is the part of a cgroup.Job that a grant is kept on.
type Marker interface {
	Mark(name string) ([]byte, error)
	SetMark(name string, value []byte) error
}
