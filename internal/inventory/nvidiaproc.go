package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
)

const (
	nvidiaDir       = "driver/nvidia"
	nvidiaGPUs      = nvidiaDir + "/gpus"
	migCapabilities = nvidiaDir + "/capabilities"
	migMinorsFile   = "driver/nvidia-caps/mig-minors"
)

// nvidiaDriver reports whether the driver is loaded, and its version from
// /proc/driver/nvidia/version.
func nvidiaDriver(proc *kernfs.FS) (loaded bool, version string) {
	b, err := proc.ReadFile(nvidiaDir + "/version")
	if errors.Is(err, fs.ErrNotExist) && !proc.Exists(nvidiaDir) {
		return false, ""
	}
	return true, parseVersion(b)
}

// parseVersion returns the release in the line "NVRM version: NVIDIA UNIX x86_64 Kernel Module
// 550.54.15  Tue ...", or "".
func parseVersion(b []byte) string {
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "NVRM version:") {
			continue
		}
		for _, word := range strings.Fields(line) {
			if strings.Contains(word, ".") && strings.Trim(word, "0123456789.") == "" {
				return word
			}
		}
	}
	return ""
}

// information is /proc/driver/nvidia/gpus/ADDRESS/information (nv_procfs_read_gpu_info of the
// driver's nv-procfs.c).
type information struct {
	gpu      NVIDIAGPU
	excluded bool // by the module's parameter NVreg_ExcludedGpus, and has no node
}

// parseInformation parses that file. A GPU that has not been used since the driver was loaded may
// not have a UUID yet ("GPU-" and question marks). The result has "" then.
func parseInformation(b []byte) (information, error) {
	var i information
	minor := ""
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "Model":
			i.gpu.Model = value
		case "GPU UUID":
			if !strings.Contains(value, "?") {
				i.gpu.UUID = value
			}
		case "Bus Location":
			i.gpu.PCI, _ = pciAddress(value)
		case "Device Minor":
			minor = value
		case "GPU Excluded", "GPU Blacklisted": // the latter before release 460
			i.excluded = value == "Yes"
		}
	}
	n, err := strconv.ParseUint(minor, 10, 20) // the kernel's minors have 20 bits
	if err != nil {
		return information{}, fmt.Errorf("device minor %q: not a number", minor)
	}
	i.gpu.Minor = uint32(n)
	return i, nil
}

// readGPUs returns the GPUs that the driver shows in /proc, and the problems with individual GPUs.
func readGPUs(proc *kernfs.FS) (gpus []NVIDIAGPU, failed problems, err error) {
	addresses, err := names(proc, nvidiaGPUs)
	if err != nil {
		return nil, nil, err
	}
	for _, address := range addresses {
		name := nvidiaGPUs + "/" + address + "/information"
		b, err := proc.ReadFile(name)
		if err != nil {
			failed.add("%v", err)
			continue
		}
		i, err := parseInformation(b)
		if err != nil {
			failed.add("parse %s: %v", proc.Path(name), err)
			continue
		}
		if i.excluded {
			continue
		}
		if i.gpu.PCI == "" {
			i.gpu.PCI, _ = pciAddress(address)
		}
		gpus = append(gpus, i.gpu)
	}
	return gpus, failed, nil
}

// migInstances returns the compute instances of the GPU with that minor, as "giM/ciK". The driver
// creates /proc/driver/nvidia/capabilities/gpuN/mig/giM/ciK for each of them. N is the minor of
// /dev/nvidiaN.
func migInstances(proc *kernfs.FS, minor uint32) ([]string, error) {
	dir := fmt.Sprintf("%s/gpu%d/mig", migCapabilities, minor)
	parts, err := numbered(proc, dir, "gi")
	if err != nil {
		return nil, err
	}
	var list []string
	for _, gi := range parts {
		cis, err := numbered(proc, dir+"/"+gi, "ci")
		if err != nil {
			return nil, err
		}
		for _, ci := range cis {
			list = append(list, gi+"/"+ci)
		}
	}
	return list, nil
}

// migMinors are the minors of /dev/nvidia-caps/nvidia-capN by the capability that they open, such
// as "gpu0/gi1/ci0/access".
type migMinors map[string]uint32

// parseMIGMinors parses /proc/driver/nvidia-caps/mig-minors (nv-caps.c), which has a line for every
// possible instance. It ignores lines of another form.
func parseMIGMinors(b []byte) migMinors {
	m := migMinors{}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue
		}
		if n, err := strconv.ParseUint(fields[1], 10, 20); err == nil {
			m[fields[0]] = uint32(n)
		}
	}
	return m
}

// of returns the minors of the two capabilities that a process needs for a compute instance. The
// first is for the GPU instance, the second for the compute instance (NVIDIA's MIG user guide,
// "Device Nodes and Capabilities").
func (m migMinors) of(minor uint32, gi, ci int) ([]uint32, error) {
	var minors []uint32
	for _, name := range []string{fmt.Sprintf("gpu%d/gi%d/access", minor, gi),
		fmt.Sprintf("gpu%d/gi%d/ci%d/access", minor, gi, ci)} {
		n, ok := m[name]
		if !ok {
			return nil, fmt.Errorf("no %s in mig-minors", name)
		}
		minors = append(minors, n)
	}
	return slices.Clip(minors), nil
}
