package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/placement"
	"github.com/hookhost/hookhost/internal/topology"
)

// examineDeviceFilter reports whether jobs can be kept from devices that are not theirs. On the v2
// tree it asks the kernel, which answers only root.
func (k *kernel) examineDeviceFilter(may rights, probe func() error) Finding {
	const what, off = "device filter", "or set enabled = false in [devices]"
	v1 := k.tree.Mode() == cgroup.ModeV1
	switch {
	case !k.cfg.Devices.Enabled:
		return ok(what, "[devices] is not enabled: jobs can open whatever file permissions allow")
	case v1 && !k.tree.Has("devices"):
		return blocking(what, "there is neither a cgroup v2 tree nor the v1 devices controller, and no job can begin",
			"mount one of them, "+off)
	case v1:
		return ok(what, "the v1 devices controller: jobs can open only what they were granted")
	case may.uid != 0:
		return unknownToUsers(what)
	}
	if err := probe(); err != nil {
		return blocking(what, err.Error()+", and no job can begin", "use a kernel with CONFIG_CGROUP_BPF; "+
			"give the daemon CAP_SYS_ADMIN, and in a container allow bpf in the seccomp profile; "+off)
	}
	return ok(what, "eBPF on the v2 tree: jobs can open only what they were granted")
}

// examineInventory reports which devices jobs can get, according to the devices hook. k is nil if
// the node has no cgroups.
func (n *Node) examineInventory(k *kernel) []Finding {
	const what = "devices"
	if !n.Settings.File.Devices.Enabled {
		return nil
	}
	inv, err := inventory.Load(n.State)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []Finding{unknown(what)}
	case errors.Is(err, fs.ErrPermission):
		return []Finding{unknownToUsers(what)}
	case err != nil:
		return []Finding{degraded(what, err.Error(), "restart the daemon: it searches again")}
	}
	findings := []Finding{ok(what, countDevices(inv))}
	if n.Settings.File.Devices.Blocks > 0 && k != nil {
		findings = append(findings, k.examineBlocks(inv))
	}
	for _, d := range inv.Devices {
		findings = append(findings, examineDevice(d))
	}
	for _, s := range inv.Sources {
		name := "devices: " + s.Name
		switch {
		case s.Error != "":
			findings = append(findings, degraded(name, s.Error,
				"jobs get the devices that were found: fix this and reload the daemon"))
		case s.Note != "" && s.Name == "allow":
			findings = append(findings, degraded(name, s.Note, "remove it from allow in [devices]; "+
				"entries that are left out only while devices are unknown return automatically"))
		case s.Name == "blocks": // reported above, for the current configuration
		case s.Note != "":
			findings = append(findings, ok(name, s.Note))
		}
	}
	return append(findings, examineDeviceDirs(n.Settings.File)...)
}

// examineBlocks reports what is in each block, or why this host cannot be divided into that many.
func (k *kernel) examineBlocks(inv *inventory.Inventory) Finding {
	node, err := topology.Scan(k.roots)
	if err != nil {
		return unknown("blocks")
	}
	cpus := node.Online
	if allowed, err := k.tree.CPUsAbove(); err == nil {
		cpus = cpus.Intersect(allowed)
	}
	return describeBlocks(k.cfg, node, cpus, inv)
}

// describeBlocks does so for a host on which jobs may use these cpus.
func describeBlocks(cfg *config.File, node *topology.Node, cpus kernfs.IDSet, inv *inventory.Inventory) Finding {
	const what = "blocks"
	n := cfg.Devices.Blocks
	req := placement.Request{Allowed: cfg.Cpuset.Left(cpus), UseHyperthreads: cfg.Cpuset.UseHyperthreads,
		MemFences: cfg.Cpuset.MemFences, Devices: inv.Devices, Mem: cfg.Memory.Left(node.MemTotal)}
	blocks, err := placement.Blocks(node, req, n)
	if err != nil {
		return blocking(what, err.Error()+": jobs that ask for blocks get none",
			"set blocks in [devices] to a number that divides the devices of each model, at most the number of cores")
	}
	first := blocks[0]
	counts := map[string]int{}
	for _, d := range inv.Devices {
		if slices.Contains(first.Devices, d.ID) {
			counts[d.Resource]++
		}
	}
	words := []string{fmt.Sprintf("ncpus=%d", first.CPUs.Len())}
	if cfg.Memory.Enabled {
		words = append(words, "mem="+pbs.Size(first.Mem).KB())
	}
	for _, r := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s=%d", r, counts[r]))
	}
	found := fmt.Sprintf("%d, each with %s", n, strings.Join(words, ", "))
	if rest := cores(node, req.Allowed) - n*cores(node, first.CPUs); rest > 0 {
		found += fmt.Sprintf("; cores in none: %d", rest)
	}
	return ok(what, found)
}

// cores returns how many cores a set of cpus covers.
func cores(node *topology.Node, cpus kernfs.IDSet) int {
	set := map[int]bool{}
	for _, c := range node.CPUs {
		if cpus.Has(c.ID) {
			set[c.Core] = true
		}
	}
	return len(set)
}

// examineDeviceDirs reports whether files for other programs can be written. A CDI directory, with
// its parents, is created when a job needs it.
func examineDeviceDirs(cfg *config.File) []Finding {
	var findings []Finding
	for _, d := range []struct {
		key, dir string
		made     bool // by hookhost
	}{{"cdi_dir", cfg.Devices.CDIDir, true}, {"dcgm_job_mapping_dir", cfg.Devices.DCGMDir, false}} {
		if d.dir == "" {
			continue
		}
		at := d.dir
		info, err := os.Stat(at)
		for d.made && errors.Is(err, fs.ErrNotExist) && at != "/" {
			at = filepath.Dir(at)
			info, err = os.Stat(at)
		}
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a directory", at)
		}
		if err == nil {
			err = unix.Access(at, unix.W_OK)
		}
		if err != nil {
			findings = append(findings, degraded(d.key, fmt.Sprintf("nothing can be written to %s: %v", d.dir, err),
				"make it a directory that root can write to, or change "+d.key+" in [devices]"))
		}
	}
	return findings
}

// countDevices returns how many of each resource there are.
func countDevices(inv *inventory.Inventory) string {
	counts := map[string]int{}
	var resources []string
	for _, d := range inv.Devices {
		if counts[d.Resource] == 0 {
			resources = append(resources, d.Resource)
		}
		counts[d.Resource]++
	}
	for i, r := range resources {
		resources[i] = fmt.Sprintf("%s=%d", r, counts[r])
	}
	return cmp.Or(strings.Join(resources, ", "), "none for jobs")
}

// examineDevice is a row for a device: its resource, its location and its kind.
func examineDevice(d topology.Device) Finding {
	var words []string
	if d.Model != "" {
		words = append(words, d.Model)
	}
	if d.Memory > 0 {
		words = append(words, pbs.Size(d.Memory).Text())
	}
	if d.NUMA >= 0 {
		words = append(words, fmt.Sprintf("NUMA node %d", d.NUMA))
	}
	where := cmp.Or(d.PCI, d.ID)
	if d.UUID != "" && d.UUID != where {
		words = append(words, cmp.Or(uuidStart.FindString(d.UUID), d.UUID))
	}
	return ok(d.Resource+" "+where, cmp.Or(strings.Join(words, " "), "a device that is configured"))
}

// uuidStart is a prefix of a UUID that is unique on a node, and that CUDA_VISIBLE_DEVICES accepts:
// "GPU-8932f937".
var uuidStart = regexp.MustCompile(`^[A-Z]+-[0-9a-f]{8}\b`)
