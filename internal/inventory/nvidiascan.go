package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/topology"
)

const (
	nvidiaVendor = 0x10de
	// nvidiaMajor is NV_MAJOR_DEVICE_NUMBER. The driver registers it as "nvidia-frontend", and
	// since release 550 as "nvidia".
	nvidiaMajor    = 195
	nvidiactlMinor = 255
)

// nvidia finds NVIDIA's GPUs. NVML is asked first, since only NVML knows memory, links and MIG
// instances. If its library is missing or fails, the driver's files in /proc have the rest.
func (s *scan) nvidia(ctx context.Context) found {
	pci, pciErr := s.nvidiaPCI()
	loaded, version := nvidiaDriver(s.roots.Proc)
	if !loaded && len(pci) == 0 {
		source := Source{Name: "nvidia"}
		if pciErr != nil {
			source.Error = pciErr.Error()
		}
		return found{sources: []Source{source}}
	}
	var sources []Source
	if s.o.NVML != "" {
		answer, err := s.o.Ask(ctx, s.o.NVML, s.o.Limit)
		if err == nil {
			return s.nvml(answer, pci)
		}
		if !errors.Is(err, ErrNoNVML) {
			sources = append(sources, Source{Name: "nvml", Error: err.Error()})
		}
	}
	f := s.nvidiaProc(loaded, version, pci)
	f.sources = append(sources, f.sources...)
	return f
}

// nvml makes devices from NVML's answer.
func (s *scan) nvml(answer *NVIDIA, pci []pciDevice) found {
	var failed, notes problems
	known := map[string]bool{}
	for _, g := range answer.GPUs {
		address, _ := pciAddress(g.PCI)
		known[address] = true
	}
	for _, d := range pci {
		if !known[d.address] {
			// The GPU has fallen off the bus, is passed to a virtual machine, or is excluded.
			notes.add("%s is not known to NVML (driver %s)", d.address, cmp.Or(d.driver, "none"))
		}
	}
	if len(answer.GPUs) == 0 && slices.ContainsFunc(pci, isNVIDIA) {
		failed.add("the driver is loaded and bound, but NVML finds no GPU")
	}
	f := s.nvidiaDevices(answer.GPUs, &failed, &notes)
	f.sources = []Source{{Name: "nvml", Count: len(f.devices), Note: notes.String(), Error: failed.String()}}
	return f
}

// nvidiaProc makes devices from the driver's files in /proc.
func (s *scan) nvidiaProc(loaded bool, version string, pci []pciDevice) found {
	var notes problems
	if !loaded {
		for _, d := range pci {
			notes.add("%s (%s) is an NVIDIA GPU without NVIDIA's driver (driver %s)", d.address, d.id(),
				cmp.Or(d.driver, "none"))
		}
		return found{sources: []Source{{Name: "nvidia", Note: notes.String()}}}
	}
	gpus, failed, err := readGPUs(s.roots.Proc)
	if err != nil {
		failed.add("%v", err)
	}
	if len(gpus) == 0 && len(failed) == 0 && slices.ContainsFunc(pci, isNVIDIA) {
		failed.add("the driver is loaded and bound, but lists no GPU in %s", s.roots.Proc.Path(nvidiaGPUs))
	}
	// Only NVML knows the UUID of an instance, by which a program selects it. Without it a job
	// would use the first of several instances. So such a GPU is left out. A GPU in MIG mode
	// without instances looks like any other GPU here, and a job that gets it finds no device.
	mig := map[string]map[string][]topology.DeviceNode{}
	gpus = slices.DeleteFunc(gpus, func(g NVIDIAGPU) bool {
		instances, err := migInstances(s.roots.Proc, g.Minor)
		if err != nil {
			failed.add("MIG instances of %s: %v", g.PCI, err)
		} else if len(instances) > 0 {
			notes.add("%s is left out: it has %d MIG instances, which only NVML can identify", g.PCI, len(instances))
			mig[g.PCI] = s.migNodes(g.Minor, instances, &notes)
		}
		return err != nil || len(instances) > 0
	})
	for _, g := range gpus {
		if g.UUID == "" {
			notes.add("%s has no UUID until it is used: run nvidia-persistenced", g.PCI)
		}
	}
	f := s.nvidiaDevices(gpus, &failed, &notes)
	f.mig = mig
	if len(f.devices) > 0 {
		notes = append(problems{fmt.Sprintf("driver %s without NVML (libnvidia-ml.so.1): memory, links and MIG are "+
			"not known", cmp.Or(version, "unknown"))}, notes...)
	}
	f.sources = []Source{{Name: "nvidia", Count: len(f.devices), Note: notes.String(), Error: failed.String()}}
	return f
}

// nvidiaDevices makes devices from GPUs. Instances replace the GPU that they are part of. Index is
// the GPU's number in the order of addresses, as in nvidia-smi and CUDA_DEVICE_ORDER=PCI_BUS_ID. An
// instance has the index of its GPU.
func (s *scan) nvidiaDevices(gpus []NVIDIAGPU, failed, notes *problems) found {
	if len(gpus) == 0 {
		return found{}
	}
	gpus = inOrder(gpus)
	withMinor := map[uint32]int{}
	for _, g := range gpus {
		withMinor[g.Minor]++
	}
	majors, err := charMajors(s.roots.Proc)
	if err != nil {
		failed.add("%v", err) // no dynamic major is known either
	}
	var minors migMinors
	if slices.ContainsFunc(gpus, func(g NVIDIAGPU) bool { return g.MIG }) {
		b, err := s.roots.Proc.ReadFile(migMinorsFile)
		if err != nil {
			failed.add("%v", err)
		}
		minors = parseMIGMinors(b)
	}
	var f found
	for i, g := range gpus {
		if g.Error != "" || withMinor[g.Minor] > 1 {
			name := cmp.Or(g.UUID, g.PCI, fmt.Sprintf("GPU %d", i))
			if err := s.confirm(g); err != nil {
				failed.add("%s is left out: %s", name, strings.TrimPrefix(g.Error+"; "+err.Error(), "; "))
				continue
			}
			if g.Error != "" {
				notes.add("%s: %s", name, g.Error)
			}
		}
		gpu := topology.Device{
			Resource: ngpus, Vendor: "nvidia", Model: g.Model, Memory: g.Memory, UUID: g.UUID, PCI: g.PCI, Index: i,
			NUMA:  numaOf(s.roots.Sys, pciDir+"/"+g.PCI),
			Nodes: nvidiaNodes(g.Minor, majors),
		}
		if !g.MIG {
			gpu.Links = nvLinks(g, gpus)
			f.devices = append(f.devices, gpu)
			continue
		}
		if len(g.Instances) == 0 {
			notes.add("%s is in MIG mode and has no instances", cmp.Or(g.UUID, g.PCI))
		}
		for _, m := range g.Instances {
			d, err := migDevice(gpu, m, g.Minor, minors, majors)
			if err != nil {
				failed.add("%s: %v", m.UUID, err)
				continue
			}
			f.devices = append(f.devices, d)
		}
	}
	for _, d := range f.devices {
		maps.DeleteFunc(d.Links, func(uuid string, _ int) bool {
			return !slices.ContainsFunc(f.devices, func(o topology.Device) bool { return o.UUID == uuid })
		})
	}
	f.shared = nvidiaShared(majors, notes)
	return f
}

// inOrder converts the GPUs' addresses to the form of sysfs and sorts the GPUs by them. It sorts
// the instances of each GPU by their ids.
func inOrder(gpus []NVIDIAGPU) []NVIDIAGPU {
	gpus = slices.Clone(gpus)
	known := true
	for i := range gpus {
		g := &gpus[i]
		address, ok := pciAddress(g.PCI)
		g.PCI, known = address, known && ok
		g.Instances = slices.Clone(g.Instances)
		slices.SortFunc(g.Instances, func(a, b MIGInstance) int { return cmp.Or(a.GI-b.GI, a.CI-b.CI) })
	}
	if known { // otherwise they stay in NVML's order, which is the same
		slices.SortStableFunc(gpus, func(a, b NVIDIAGPU) int { return strings.Compare(a.PCI, b.PCI) })
	}
	return gpus
}

// confirm checks a GPU that NVML did not fully describe against the driver's files. A field that
// NVML left out is zero, but a minor of zero is another GPU's node.
func (s *scan) confirm(g NVIDIAGPU) error {
	if g.PCI == "" || g.UUID == "" {
		return errors.New("its address or UUID is not known")
	}
	b, err := s.roots.Proc.ReadFile(nvidiaGPUs + "/" + g.PCI + "/information")
	if err != nil {
		return err
	}
	i, err := parseInformation(b)
	if err != nil {
		return fmt.Errorf("information of %s: %w", g.PCI, err)
	}
	if i.gpu.Minor != g.Minor {
		return fmt.Errorf("its minor is %d, not %d", i.gpu.Minor, g.Minor)
	}
	instances, err := migInstances(s.roots.Proc, g.Minor)
	if err == nil && len(instances) > 0 && !g.MIG {
		err = errors.New("it has MIG instances")
	}
	return err
}

// migNodes returns the nodes of a GPU's instances ("giM/ciK") by their ids ("M.K"). It leaves
// out those whose nodes are not known.
func (s *scan) migNodes(minor uint32, instances []string, notes *problems) map[string][]topology.DeviceNode {
	majors, err := charMajors(s.roots.Proc)
	if err != nil {
		notes.add("%v", err)
		return nil
	}
	b, err := s.roots.Proc.ReadFile(migMinorsFile)
	if err != nil {
		notes.add("%v", err)
		return nil
	}
	minors, gpu := parseMIGMinors(b), topology.Device{Nodes: nvidiaNodes(minor, majors)}
	nodes := map[string][]topology.DeviceNode{}
	for _, name := range instances {
		var m MIGInstance
		_, err := fmt.Sscanf(name, "gi%d/ci%d", &m.GI, &m.CI)
		var d topology.Device
		if err == nil {
			d, err = migDevice(gpu, m, minor, minors, majors)
		}
		if err != nil {
			notes.add("MIG instance %s of /dev/nvidia%d: %v", name, minor, err)
			continue
		}
		nodes[d.Instance] = d.Nodes
	}
	return nodes
}

// migDevice makes a device from a compute instance of gpu.
func migDevice(gpu topology.Device, m MIGInstance, minor uint32, minors migMinors,
	majors map[string]uint32) (topology.Device, error) {
	major, ok := majors["nvidia-caps"]
	if !ok {
		return topology.Device{}, errors.New("no nvidia-caps in /proc/devices")
	}
	caps, err := minors.of(minor, m.GI, m.CI)
	if err != nil {
		return topology.Device{}, err
	}
	d := gpu
	d.UUID, d.Model, d.Memory, d.Parent = m.UUID, m.Model, m.Memory, gpu.UUID
	d.Instance = fmt.Sprintf("%d.%d", m.GI, m.CI)
	d.Nodes = slices.Clone(gpu.Nodes)
	for _, n := range caps {
		d.Nodes = append(d.Nodes,
			topology.DeviceNode{Path: fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", n), Major: major, Minor: n})
	}
	return d, nil
}

// nvLinks returns g's links: those that NVML found between two GPUs, and those that both have to a
// switch.
func nvLinks(g NVIDIAGPU, gpus []NVIDIAGPU) map[string]int {
	links := map[string]int{}
	for _, other := range gpus {
		if other.UUID == "" || other.UUID == g.UUID || other.MIG { // NVLink does not work in MIG mode
			continue
		}
		if n := max(g.Links[other.UUID], min(g.NVSwitch, other.NVSwitch)); n > 0 {
			links[other.UUID] = n
		}
	}
	if len(links) == 0 {
		return nil
	}
	return links
}

func nvidiaNodes(minor uint32, majors map[string]uint32) []topology.DeviceNode {
	path := fmt.Sprintf("/dev/nvidia%d", minor)
	return []topology.DeviceNode{{Path: path, Major: nvidiaMajorOf(majors), Minor: minor}}
}

func nvidiaMajorOf(majors map[string]uint32) uint32 {
	for _, name := range []string{"nvidia", "nvidia-frontend"} {
		if m, ok := majors[name]; ok {
			return m
		}
	}
	return nvidiaMajor
}

// nvidiaShared returns the nodes that every CUDA program opens: nvidiactl, and the two of unified
// memory. The second of these lets profilers examine processes of the same user. nvidia-modeset is
// not included: it controls the displays of all GPUs, and is not needed for computing.
func nvidiaShared(majors map[string]uint32, notes *problems) []topology.DeviceNode {
	shared := []topology.DeviceNode{{Path: "/dev/nvidiactl", Major: nvidiaMajorOf(majors), Minor: nvidiactlMinor}}
	uvm, ok := majors["nvidia-uvm"]
	if !ok {
		// CUDA's library loads the module when root runs the first program, but a job cannot.
		notes.add("the module nvidia-uvm is not loaded, which CUDA needs: run nvidia-modprobe -u -c 0 " +
			"at boot")
		return shared
	}
	shared = append(shared, topology.DeviceNode{Path: "/dev/nvidia-uvm", Major: uvm},
		topology.DeviceNode{Path: "/dev/nvidia-uvm-tools", Major: uvm, Minor: 1})
	if gdr, ok := majors["gdrdrv"]; ok { // GDRCopy, with which MPI libraries access the memory of the process's GPU
		shared = append(shared, topology.DeviceNode{Path: "/dev/gdrdrv", Major: gdr})
	}
	return shared
}

func isNVIDIA(d pciDevice) bool { return d.driver == "nvidia" }

// nvidiaPCI returns NVIDIA's display controllers, with or without a driver.
func (s *scan) nvidiaPCI() ([]pciDevice, error) {
	all, err := pciDevices(s.roots.Sys)
	return slices.DeleteFunc(all, func(d pciDevice) bool { return d.vendor != nvidiaVendor || !d.isDisplay() }), err
}
