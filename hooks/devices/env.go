package main

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/topology"
)

// A program must know which GPUs to use. Some libraries number all GPUs in /proc and /sys, and
// others only those that they can open. So the same number can mean different GPUs to different
// libraries. UUIDs are unambiguous, and are used if the vendor has them.

// environments has the variables of each vendor but NVIDIA. They are set on nodes that have devices
// of the vendor. held are the job's, and all is the number of the node's.
var environments = map[string]func(held []topology.Device, all int) map[string]string{
	"amd": func(held []topology.Device, _ int) map[string]string {
		// The kernel hides a GPU from processes that may not open its render node
		// (kfd_devcgroup_check_permission). So ROCr's indices count only the job's GPUs. An empty
		// list means no GPU.
		return map[string]string{"ROCR_VISIBLE_DEVICES": strings.Join(names(held), ",")}
	},
	"intel": func(held []topology.Device, _ int) map[string]string {
		return map[string]string{"ZE_AFFINITY_MASK": affinityMask(len(held))}
	},
	"habana": func(held []topology.Device, _ int) map[string]string {
		// The first is for the container runtime, the second for programs that use only some of a
		// host's processors.
		return map[string]string{"HABANA_VISIBLE_DEVICES": strings.Join(accelNumbers(held), ","),
			"HABANA_VISIBLE_MODULES": strings.Join(indices(held), ",")}
	},
	"tpu": libtpu,
	"tenstorrent": func(held []topology.Device, _ int) map[string]string {
		// Depending on the version of tt-umd, numbers count the devices that can be opened, or are
		// those of the nodes. PCI addresses, which it understands since 0.9.2, are unambiguous. An
		// empty list means no device.
		return map[string]string{"TT_VISIBLE_DEVICES": strings.Join(addresses(held), ",")}
	},
}

// variables returns the environment for the programs of a job with that grant (nil: none). there
// says how many devices of each vendor are on the node. CUDA's variables are always set: a job
// without a GPU must see an empty list, even if the node's inventory is not known.
func variables(g *inventory.Grant, there map[string]int) map[string]string {
	if g == nil {
		g = &inventory.Grant{}
	}
	env := map[string]string{}
	nvidia, amd := byVendor(g, "nvidia"), byVendor(g, "amd")
	// HIP also reads CUDA_VISIBLE_DEVICES, as indices of AMD's GPUs, and some programs built on HIP
	// take an empty list to mean no GPU. So the variable is not set for a job with only AMD GPUs.
	if len(amd) == 0 || len(nvidia) > 0 {
		env["CUDA_VISIBLE_DEVICES"] = strings.Join(names(nvidia), ",")
	}
	env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
	// "void" makes NVIDIA's container runtime do nothing. "none" would add the driver's libraries.
	// An empty value would add the devices that an image names.
	env["NVIDIA_VISIBLE_DEVICES"] = "void"
	if len(nvidia) > 0 {
		env["NVIDIA_VISIBLE_DEVICES"] = strings.Join(toRuntime(nvidia), ",")
	}
	for vendor, of := range environments {
		if held := byVendor(g, vendor); there[vendor] > 0 || len(held) > 0 {
			maps.Copy(env, of(held, there[vendor]))
		}
	}
	env["PBS_JOB_GPUS"] = strings.Join(gpus(g), ",")
	maps.Copy(env, configured(g.Devices))
	return env
}

// gpus returns the UUIDs of the job's GPUs of all vendors. If the UUID of a GPU is not known, it is
// the PCI address or the device node.
func gpus(g *inventory.Grant) []string {
	var ids []string
	for _, d := range g.Devices {
		if d.Resource == "ngpus" {
			ids = append(ids, cmp.Or(d.UUID, d.ID))
		}
	}
	return ids
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

// names returns the UUIDs of devices of one vendor. If any device lacks a UUID, all are numbered
// from 0. CUDA and ROCr count only the devices that can be opened, which are these.
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

// toRuntime is like names for NVIDIA's container runtime, which may run outside the job, where it
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

func addresses(list []topology.Device) []string {
	all := make([]string, len(list))
	for i, d := range list {
		all[i] = d.PCI
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

// mostTiles is the largest number of tiles on an Intel GPU (the Data Center GPU Max 1550).
const mostTiles = 2

// affinityMask names everything that Level Zero can open, which is the job's devices. For a job
// without any it is empty, which masks nothing. By default the numbers refer to tiles
// (ZE_FLAT_DEVICE_HIERARCHY=FLAT). So one number per GPU would hide half of a GPU with two tiles.
// Numbers that are too large are ignored (intel/compute-runtime,
// ExecutionEnvironment::parseAffinityMask). The mask has to be set, because the job's environment
// may have one from another host that is wrong here.
func affinityMask(gpus int) string { return strings.Join(counted(mostTiles*gpus), ",") }

// tpuBounds has the shapes of the parts of a host that libtpu can use, by their number of chips.
var tpuBounds = map[int]string{1: "1,1,1", 2: "1,2,1", 4: "2,2,1"}

// tpuVariables are the variables that libtpu can return. A job may have only some of them.
var tpuVariables = []string{"TPU_VISIBLE_CHIPS", "TPU_CHIPS_PER_PROCESS_BOUNDS", "TPU_PROCESS_BOUNDS",
	"ALLOW_MULTIPLE_LIBTPU_LOAD"}

// libtpu returns nothing for a job with all chips of the host: then libtpu itself finds them, and
// the other hosts of their slice. (ray-project/ray, _private/accelerators/tpu.py)
//
// libtpu has a lock in /tmp against a second process on the host, unless it uses less than four
// chips (openxla/xla, tpu_initializer_framework_helper.cc). Two jobs can have four of eight chips.
func libtpu(held []topology.Device, all int) map[string]string {
	if len(held) > 0 && len(held) == all {
		return nil
	}
	env := map[string]string{"TPU_VISIBLE_CHIPS": strings.Join(indices(held), ",")}
	if len(held) > 0 {
		env["ALLOW_MULTIPLE_LIBTPU_LOAD"] = "1"
	}
	if bounds := tpuBounds[len(held)]; bounds != "" {
		env["TPU_CHIPS_PER_PROCESS_BOUNDS"], env["TPU_PROCESS_BOUNDS"] = bounds, "1,1,1"
	}
	return env
}

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

// configured returns the variables that the configuration sets for devices. Values of several
// devices are joined by commas, but if all are equal the value appears only once.
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
