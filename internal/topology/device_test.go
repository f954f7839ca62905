package topology

import "testing"

func TestDeviceOverlaps(t *testing.T) {
	node := func(major, minor uint32) DeviceNode { return DeviceNode{Path: "/dev/x", Major: major, Minor: minor} }
	block := func(major, minor uint32) DeviceNode { n := node(major, minor); n.Block = true; return n }
	device := func(id, pci string, nodes ...DeviceNode) Device { return Device{ID: id, PCI: pci, Nodes: nodes} }
	part := func(id, parent string, nodes ...DeviceNode) Device {
		return Device{ID: id, UUID: id, Parent: parent, PCI: "0000:07:00.0", Nodes: nodes}
	}
	gpu := node(195, 0)
	for _, tt := range []struct {
		name string
		d, e Device
		want bool
	}{
		{"itself", device("GPU-0", ""), device("GPU-0", ""), true},
		{"others", device("GPU-0", "0000:07:00.0", gpu), device("GPU-1", "0000:08:00.0", node(195, 1)), false},
		{"others that nothing is known of", device("GPU-0", ""), device("GPU-1", ""), false},
		{"before and after its UUID was known", device("0000:07:00.0", "0000:07:00.0", gpu),
			device("GPU-0", "0000:07:00.0", gpu), true},
		{"one node under two names", device("/dev/a", "", node(240, 3)),
			device("/dev/b", "", node(240, 2), node(240, 3)), true},
		{"a block device with the numbers of another", device("/dev/a", "", node(240, 3)),
			device("/dev/b", "", block(240, 3)), false},
		{"partitions of one GPU that have their own nodes", device("0", "0000:07:00.0", node(226, 128)),
			device("1", "0000:07:00.0", node(226, 129)), false},
		{"an instance and its GPU", part("MIG-1", "GPU-0"), device("GPU-0", ""), true},
		{"an instance and its GPU before its UUID was known", part("MIG-1", "GPU-0"),
			device("0000:07:00.0", "0000:07:00.0"), true},
		{"an instance and its GPU by its UUID", part("MIG-1", "GPU-0"), Device{ID: "x", UUID: "GPU-0"}, true},
		{"an instance and another GPU", part("MIG-1", "GPU-0", gpu), device("GPU-1", "0000:08:00.0", node(195, 1)),
			false},
		{"instances that nothing is known of", part("MIG-1", "GPU-0"), part("MIG-2", "GPU-0"), false},
		{"instances of one GPU", part("MIG-1", "GPU-0", gpu, node(237, 12), node(237, 13)),
			part("MIG-2", "GPU-0", gpu, node(237, 21), node(237, 22)), false},
		{"compute instances of one GPU instance", part("MIG-1", "GPU-0", gpu, node(237, 12), node(237, 13)),
			part("MIG-2", "GPU-0", gpu, node(237, 12), node(237, 14)), false},
		{"one instance under two names", part("MIG-1", "GPU-0", gpu, node(237, 12), node(237, 13)),
			part("MIG-x", "GPU-0", gpu, node(237, 12), node(237, 13)), true},
		{"instances of two GPUs with one node", part("MIG-1", "GPU-0", gpu, node(237, 12)),
			part("MIG-2", "GPU-1", gpu, node(237, 13)), true},
	} {
		if got, back := tt.d.Overlaps(tt.e), tt.e.Overlaps(tt.d); got != tt.want || back != tt.want {
			t.Errorf("%s: %v, and %v the other way round, want %v", tt.name, got, back, tt.want)
		}
	}
}
