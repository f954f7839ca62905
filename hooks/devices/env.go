package main

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/topology"
)

// A program has to know which GPUs to use. Some libraries count all GPUs of /proc and /sys, others
// only those that can be opened. So numbers mean one thing to one library and another to the next.
// UUIDs mean the same to all and are used where the vendor has them.

// variables returns what the programs of a job with that grant (nil: none) find in their
// environment. there tells of which vendors the node has devices. CUDA's variables are always
// there: a job without a GPU is to see an empty list, also while the node's inventory is not known.
func variables(g *inventory.Grant, there map[string]bool) map[string]string {
	if g == nil {
		g = &inventory.Grant{}
	}
	env := map[string]string{}
	nvidia, amd := byVendor(g, "nvidia"), byVendor(g, "amd")
	// HIP reads CUDA_VISIBLE_DEVICES too, as indices of AMD's, and some programs on top of it take
	// an empty list for no GPU. So a job that has GPUs of AMD alone does not get it.
	if len(amd) == 0 || len(nvidia) > 0 {
		env["CUDA_VISIBLE_DEVICES"] = strings.Join(names(nvidia), ",")
	}
	env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
	// "void" makes NVIDIA's container runtime do nothing. "none" would bring in the driver's
	// libraries, and an empty one, in images that name their own devices, those.
	env["NVIDIA_VISIBLE_DEVICES"] = "void"
	if len(nvidia) > 0 {
		env["NVIDIA_VISIBLE_DEVICES"] = strings.Join(toRuntime(nvidia), ",")
	}
	if there["amd"] || len(amd) > 0 {
		// The kernel hides a GPU from who may not open its render node
		// (kfd_devcgroup_check_permission), so ROCr's indices count the job's own. An empty list is
		// none.
		env["ROCR_VISIBLE_DEVICES"] = strings.Join(names(amd), ",")
	}
	if intel := byVendor(g, "intel"); len(intel) > 0 {
		env["ZE_AFFINITY_MASK"] = affinityMask(len(intel))
	} else if there["intel"] {
		env["ZE_AFFINITY_MASK"] = "" // which is no mask: there is nothing that it could open
	}
	if habana := byVendor(g, "habana"); there["habana"] || len(habana) > 0 {
		// The first is for the container runtime, the other for programs that use some of a host's
		// processors.
		env["HABANA_VISIBLE_DEVICES"] = strings.Join(accelNumbers(habana), ",")
		env["HABANA_VISIBLE_MODULES"] = strings.Join(indices(habana), ",")
	}
	maps.Copy(env, configured(g.Devices))
	return env
}

func byVendor(g *inventory.Grant, vendor string) []topology.Device {
	var list []topology.Device
	for _, d := range g.Devices {
		if d.Vendor == vendor {
			list = append(list, d)
		}
	}
	return list
}

// names returns the UUIDs of devices of one vendor. If one has none, all are numbered from 0: CUDA
// and ROCr count what can be opened, which is these.
func names(list []topology.Device) []string {
	uuids := make([]string, len(list))
	for i, d := range list {
		uuids[i] = d.UUID
	}
	if slices.Contains(uuids, "") {
		return counted(len(list))
	}
	return uuids
}

// toRuntime is names for NVIDIA's container runtime, which may run outside of the job and then
// counts all GPUs.
func toRuntime(list []topology.Device) []string {
	all := make([]string, len(list))
	for i, d := range list {
		if all[i] = d.UUID; d.UUID == "" {
			all[i] = strconv.Itoa(d.Index)
		}
	}
	return all
}

func indices(list []topology.Device) []string {
	all := make([]string, len(list))
	for i, d := range list {
		all[i] = strconv.Itoa(d.Index)
	}
	return all
}

func counted(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return list
}

// mostTiles is how many tiles an Intel GPU has at most (the Data Center GPU Max 1550).
const mostTiles = 2

// affinityMask names all that Level Zero can open, which is the job's own. The numbers are those of
// tiles by default (ZE_FLAT_DEVICE_HIERARCHY=FLAT). So a mask of one number for each GPU would hide
// half of those that have two. Numbers beyond what there is are passed over (intel/compute-runtime,
// ExecutionEnvironment::parseAffinityMask). The mask is set at all because one that came from
// another host with the job's environment would be wrong here.
func affinityMask(gpus int) string { return strings.Join(counted(mostTiles*gpus), ",") }

// accelNumbers returns the N of /dev/accel/accelN or /dev/hlN, by which habana-container-runtime
// finds its devices.
func accelNumbers(list []topology.Device) []string {
	numbers := indices(list)
	for i, d := range list {
		for _, n := range d.Nodes {
			base := path.Base(n.Path)
			if digits := strings.TrimLeft(base, "abcdefghijklmnopqrstuvwxyz"); digits != "" && digits != base &&
				!strings.Contains(base, "control") {
				numbers[i] = digits
				break
			}
		}
	}
	return numbers
}

// configured returns the variables that devices bring along. Values of several devices are joined
// by commas, and equal ones are one.
func configured(list []topology.Device) map[string]string {
	values := map[string][]string{}
	for _, d := range list {
		for name, v := range d.Env {
			values[name] = append(values[name], v)
		}
	}
	env := make(map[string]string, len(values))
	for name, all := range values {
		if same := slices.Compact(slices.Clone(all)); len(same) == 1 {
			all = same
		}
		env[name] = strings.Join(all, ",")
	}
	return env
}
