package inventory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/topology"
)

const (
	kfdNodes = "class/kfd/kfd/topology/nodes"

	kfdXGMI = 11 // CRAT_IOLINK_TYPE_XGMI of amdkfd/kfd_crat.h
	// kfdOneHop is the weight of a direct link between two GPUs (KFD_CRAT_XGMI_WEIGHT).
	kfdOneHop = 15
)

// kfdGPU is a GPU node in amdkfd's topology (amdkfd/kfd_topology.c). It is a card, one of the two
// dies of an MI250, or a partition of an MI300.
type kfdGPU struct {
	device topology.Device
	pci    string         // vendor and device
	links  map[string]int // by the other node's number
}

// amd finds AMD's GPUs, in the order of amdkfd's nodes, which is also that of ROCR_VISIBLE_DEVICES.
func (s *scan) amd(context.Context) found {
	nodes, err := numbered(s.roots.Sys, kfdNodes, "")
	if err != nil {
		return found{sources: []Source{{Name: "amd", Error: err.Error()}}}
	}
	var failed, notes problems
	gpus := map[string]*kfdGPU{}
	var order []string
	for _, n := range nodes {
		gpu, err := s.readKFD(n)
		if err != nil {
			failed.add("%v", err)
			continue
		}
		if gpu != nil {
			gpu.device.Index = len(order)
			gpus[n], order = gpu, append(order, n)
		}
	}
	s.amdWithoutKFD(len(order), &notes)
	if len(order) == 0 {
		return found{sources: []Source{{Name: "amd", Note: notes.String(), Error: failed.String()}}}
	}
	kfd, err := sysNode(s.roots.Sys, "class/kfd/kfd", "/dev/kfd")
	if err != nil {
		return found{sources: []Source{{Name: "amd", Error: err.Error()}}}
	}
	f := found{shared: []topology.DeviceNode{kfd}}
	for _, n := range order {
		gpu := gpus[n]
		if gpu.device.Model == "" {
			gpu.device.Model = amdModel(gpu, gpus, text(s.roots.Sys, kfdNodes+"/"+n+"/name"))
		}
		f.devices = append(f.devices, gpu.device)
	}
	identify(f.devices) // links refer to devices by ID
	for i, n := range order {
		for to, count := range gpus[n].links {
			if other, ok := gpus[to]; ok {
				link(f.devices, i, other.device.Index, count)
			}
		}
	}
	f.sources = []Source{{Name: "amd", Count: len(f.devices), Note: notes.String(), Error: failed.String()}}
	return f
}

// readKFD returns the node with that number. It returns nil for the node of a processor, which has
// no gpu_id.
func (s *scan) readKFD(n string) (*kfdGPU, error) {
	sys, dir := s.roots.Sys, kfdNodes+"/"+n
	id, err := sys.Uint(dir + "/gpu_id")
	if err != nil || id == 0 {
		return nil, err
	}
	b, err := sys.ReadFile(dir + "/properties")
	if err != nil {
		return nil, err
	}
	p := parseProperties(b)
	// A partition has its number in bits 28 and up. Earlier drivers put it in place of the
	// function, which is 0.
	location := p["location_id"]
	address := fmt.Sprintf("%04x:%02x:%02x.%d", p["domain"], location>>8&0xff, location>>3&0x1f, location&7)
	if !sys.Exists(pciDir + "/" + address) {
		address = address[:len(address)-1] + "0"
	}
	render := fmt.Sprintf("renderD%d", p["drm_render_minor"])
	nodes, err := drmNodes(sys, render)
	if err != nil {
		return nil, fmt.Errorf("node %s (%s): %w", n, address, err)
	}
	gpu := &kfdGPU{
		pci:   fmt.Sprintf("%04x:%04x", p["vendor_id"], p["device_id"]),
		links: map[string]int{},
		device: topology.Device{
			Resource: ngpus, Vendor: "amd", PCI: address, NUMA: numaOf(sys, pciDir+"/"+address), Nodes: nodes,
			// From the card's FRU memory; see amdgpu_fru_eeprom.c.
			Model:  text(sys, "class/drm/"+render+"/device/product_name"),
			Memory: s.kfdMemory(dir, render),
		},
	}
	if p["unique_id"] != 0 {
		gpu.device.UUID = fmt.Sprintf("GPU-%016x", p["unique_id"]) // the form of rocminfo and ROCR_VISIBLE_DEVICES
	}
	links, err := numbered(sys, dir+"/io_links", "")
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		b, err := sys.ReadFile(dir + "/io_links/" + l + "/properties")
		if err != nil {
			return nil, err
		}
		p := parseProperties(b)
		if p["type"] != kfdXGMI || p["weight"] > kfdOneHop {
			continue
		}
		// The bandwidths (Linux 5.15) are those of one link and of all links.
		count := 1
		if least := p["min_bandwidth"]; least > 0 {
			count = int(min(max(p["max_bandwidth"]/least, 1), 64))
		}
		gpu.links[strconv.FormatUint(p["node_to"], 10)] = count
	}
	return gpu, nil
}

// kfdMemory returns the memory of the node in dir: the sum of its banks of type 1 and 2
// (HSA_MEM_HEAP_TYPE_FB_PUBLIC and _PRIVATE). A partition has separate banks. For a node without
// banks it returns amdgpu's figure for the whole device.
func (s *scan) kfdMemory(dir, render string) int64 {
	var total uint64
	banks, err := numbered(s.roots.Sys, dir+"/mem_banks", "")
	if err == nil {
		for _, bank := range banks {
			p := parseProperties([]byte(text(s.roots.Sys, dir+"/mem_banks/"+bank+"/properties")))
			if heap := p["heap_type"]; heap == 1 || heap == 2 {
				total += p["size_in_bytes"]
			}
		}
	}
	if total == 0 {
		total, _ = s.roots.Sys.Uint("class/drm/" + render + "/device/mem_info_vram_total")
	}
	return int64(min(total, 1<<62))
}

// amdModel names a GPU without a product name. It uses the name of a GPU with the same PCI ID,
// since only the first die of an MI250 can read it. Otherwise it uses amdkfd's name and the PCI ID.
func amdModel(g *kfdGPU, gpus map[string]*kfdGPU, name string) string {
	for _, other := range gpus {
		if other.pci == g.pci && other.device.Model != "" {
			return other.device.Model
		}
	}
	return strings.TrimSpace(cmp.Or(name, "AMD") + " " + g.pci)
}

// amdWithoutKFD notes GPUs that amdgpu drives but amdkfd does not show.
func (s *scan) amdWithoutKFD(count int, notes *problems) {
	if count > 0 || s.roots.Sys.Exists("class/kfd/kfd") {
		return
	}
	all, err := pciDevices(s.roots.Sys)
	if err != nil {
		return
	}
	for _, d := range slices.DeleteFunc(all, func(d pciDevice) bool { return d.driver != "amdgpu" || !d.isDisplay() }) {
		notes.add("%s (%s) has the driver amdgpu, and amdkfd, which ROCm needs, is not there", d.address, d.id())
	}
}

// parseProperties parses a properties file of amdkfd's topology, with a name and a number in each
// line. It ignores other lines.
func parseProperties(b []byte) map[string]uint64 {
	p := map[string]uint64{}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); ok && err == nil {
			p[key] = n
		}
	}
	return p
}
