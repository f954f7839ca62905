// Package inventory finds the node's devices, and records which job was granted which of them.
//
// A scan may take seconds and may hang, because it asks a driver's library. So no event waits for
// it: the result is stored in a file, and decisions use that file. A job's grant is stored on its
// cgroup (Grant), like everything else that jobs hold.
package inventory

import "github.com/hookhost/hookhost/internal/topology"

// Inventory is the result of a scan of one node. It does not change after Scan.
type Inventory struct {
	Devices []topology.Device `json:"devices"`
	// Shared are further nodes that every holder of a vendor's device needs (nvidiactl, nvidia-uvm,
	// kfd), by vendor.
	Shared map[string][]topology.DeviceNode `json:"shared,omitempty"`
	// Sources are the results of the sources that were asked: GPUSources and "device". NVIDIA's
	// GPUs are in "nvml" or "nvidia" (the driver's files). Both are present if NVML failed and was
	// replaced by the other.
	Sources []Source `json:"sources"`
	// Numbering has those lines of Numbering (the function) that the nodes' numbers depend on. The
	// numbers belong to the same devices as long as all of them are still true.
	Numbering []string `json:"numbering,omitempty"`
	// MIG has the nodes of the MIG instances that NVIDIA's driver shows in its files, by the GPU's
	// PCI address and the instance's ids. Only a scan without NVML sets it, and it is not stored.
	MIG map[string]map[string][]topology.DeviceNode `json:"-"`
}

// Source is the result of one way to find devices. If Error is empty and Count is 0, there are no
// devices.
type Source struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Note  string `json:"note,omitempty"`  // what is degraded, and how to fix it
	Error string `json:"error,omitempty"` // it failed, so its devices are not known
}

// Grant holds the devices that a job was given. It is complete in itself: if a device disappears or
// the inventory changes, the job's grant stays the same.
type Grant struct {
	Devices []topology.Device `json:"devices"` // without their Links
	// Leaving are devices that the job has given up but that are still in its filter. They are not
	// free until hook devices has removed them.
	Leaving []topology.Device     `json:"leaving,omitempty"`
	Shared  []topology.DeviceNode `json:"shared,omitempty"` // of the vendors of Devices
	// numbers of the job's blocks; nil if it did not ask for any
	Blocks []int `json:"blocks,omitempty"`
	// Serial counts the job's grants from 0. Hook devices uses it to record which grant the filter
	// follows: see Applied.
	Serial int `json:"serial,omitempty"`
}

// Marker is the part of a cgroup.Job that stores a grant.
type Marker interface {
	Mark(name string) ([]byte, error)
	SetMark(name string, value []byte) error
}
