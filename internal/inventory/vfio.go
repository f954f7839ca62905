package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// vfioGroup is an IOMMU group with a node in /dev/vfio (drivers/vfio/group.c).
type vfioGroup struct {
	number  string
	members []string // PCI addresses
}

// vfioGroups returns the groups by the addresses of their members. Groups without an IOMMU are left
// out, because ordinary users cannot open them.
func vfioGroups(sys *kernfs.FS) (map[string]vfioGroup, error) {
	list, err := numbered(sys, "class/vfio", "")
	if err != nil {
		return nil, err
	}
	groups := map[string]vfioGroup{}
	for _, number := range list {
		members, err := names(sys, "kernel/iommu_groups/"+number+"/devices")
		if err != nil {
			return nil, err
		}
		for _, m := range members {
			groups[m] = vfioGroup{number, members}
		}
	}
	return groups, nil
}

// vfioNodes returns the nodes of the function: that of its group and, if the kernel has such nodes,
// one of the function alone. It returns nothing if the function is in no group. A group with other
// members is an error, because its holder would have them too.
func vfioNodes(sys *kernfs.FS, pci pciDevice, groups map[string]vfioGroup) ([]topology.DeviceNode, error) {
	group, ok := groups[pci.address]
	if !ok {
		return nil, nil
	}
	if len(group.members) > 1 {
		return nil, fmt.Errorf("its IOMMU group %s has other members and cannot be given to a job: %s",
			group.number, strings.Join(group.members, " "))
	}
	node, err := sysNode(sys, "class/vfio/"+group.number, "/dev/vfio/"+group.number)
	if err != nil {
		return nil, err
	}
	nodes := []topology.DeviceNode{node}
	dir := pciDir + "/" + pci.address + "/vfio-dev"
	list, err := numbered(sys, dir, "vfio")
	if err != nil {
		return nil, err
	}
	for _, name := range list {
		node, err := sysNode(sys, dir+"/"+name, "/dev/vfio/devices/"+name)
		if errors.Is(err, fs.ErrNotExist) { // the kernel was built without CONFIG_VFIO_DEVICE_CDEV
			continue
		}
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
