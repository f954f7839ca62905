package config

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/devrule"
)

// Devices configures which devices jobs may open.
type Devices struct {
	Enabled bool `toml:"enabled" json:"enabled"`
	// Allow accepts the forms of pbs_cgroups: a rule, or a list of a name in /dev, an access and
	// optionally "*" for all minors.
	Allow         []any    `toml:"allow" json:"allow"`
	Fuse          bool     `toml:"fuse" json:"fuse"`
	DiscoverGPUs  bool     `toml:"discover_gpus" json:"discover_gpus"`
	ProbeTimeout  Duration `toml:"probe_timeout" json:"probe_timeout"`
	Accounting    bool     `toml:"accounting" json:"accounting"`
	JobsPerDevice int      `toml:"jobs_per_device" json:"jobs_per_device"`
	Blocks        int      `toml:"blocks" json:"blocks"`
	CDIDir        string   `toml:"cdi_dir" json:"cdi_dir"`
	DCGMDir       string   `toml:"dcgm_job_mapping_dir" json:"dcgm_job_mapping_dir"`
}

// Device configures a kind of device that is not found automatically.
type Device struct {
	Resource string            `toml:"resource" json:"resource"`
	Paths    []string          `toml:"paths" json:"paths"`
	Model    string            `toml:"model" json:"model,omitempty"`
	Env      map[string]string `toml:"env" json:"env,omitempty"`
}

var (
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	resourceForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
)

// IsVariable reports whether name can be that of a variable of the environment in a shell, for PAM
// and for container engines.
func IsVariable(name string) bool { return variableForm.MatchString(name) }

// check returns an error for the first invalid value, with its key.
func (d Devices) check() error {
	for _, entry := range d.Allow {
		if err := devrule.Check(entry); err != nil {
			return fmt.Errorf("devices.allow: %v: %w", devrule.Show(entry), err)
		}
	}
	return firstBroken(
		rule{"devices.jobs_per_device", d.JobsPerDevice, d.JobsPerDevice >= 1, "1 or more"},
		rule{"devices.blocks", d.Blocks, d.Blocks >= 0, "0 for none, or how many"},
		cleanPath("devices.cdi_dir", d.CDIDir),
		cleanPath("devices.dcgm_job_mapping_dir", d.DCGMDir),
	)
}

// isBelowDev reports whether a path, or a pattern of paths, names something in /dev in the shortest
// way.
func isBelowDev(name string) bool {
	_, err := filepath.Match(strings.TrimPrefix(name, "/dev/"), "")
	return err == nil && strings.HasPrefix(name, "/dev/") && path.Clean(name) == name &&
		!strings.ContainsRune(name, 0)
}

// taken are the resources with another meaning: to PBS (openpbs master_resc_def_all.xml, and those
// of its own cgroups hook) or to hookhost. Names with one of takenPrefixes are also taken.
var (
	taken = strings.Fields(`accelerator accelerator_group accelerator_memory accelerator_model aoe arch
		blocks cgswap chunk cput eoe exec_vnode file gpus hbmem host hpmem in_multivnode_host max_walltime
		mem min_walltime mpiprocs ncpus netwins ngpus nice nmics nodect nodes ompthreads oom_group pcput
		pids place pmem preempt_targets pvmem select site soft_walltime software vmem vnode vntype walltime`)
	takenPrefixes = []string{"gpu_", "hpmem_", "rlimit_"}
	// ownResources are those that hookhost itself reads or sets, and that are not taken.
	ownResources = []string{"kill_delay", "walltime_signal"}
)

// isTaken reports whether a resource already has a meaning. It ignores case.
func isTaken(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(taken, name) ||
		slices.ContainsFunc(takenPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// KnowsResource reports whether a resource is known to PBS, to hookhost or in the file.
func (f *File) KnowsResource(name string) bool {
	if f.Container.Enabled && name == ContainerResource {
		return true
	}
	return isTaken(name) || slices.Contains(ownResources, strings.ToLower(name)) ||
		strings.EqualFold(name, SharedMemorySize) && f.Private.HasSharedMemory() ||
		slices.ContainsFunc(f.Device, func(d Device) bool { return strings.EqualFold(d.Resource, name) })
}

// checkDevices returns an error for the first invalid value of the [[device]] tables. Several
// tables may share a resource, for devices of different models.
func (f *File) checkDevices() error {
	// PBS would choose a job's NUMA nodes, and the blocks might be on others.
	if f.Devices.Blocks > 0 && f.Vnodes.PerNUMANode {
		return fmt.Errorf("devices.blocks = %d: want 0 with vnodes.vnode_per_numa_node", f.Devices.Blocks)
	}
	seen := map[string]bool{}
	for i, d := range f.Device {
		if err := d.check(); err != nil {
			return fmt.Errorf("device %d: %w", i+1, err)
		}
		for _, name := range d.Paths {
			if seen[name] {
				return fmt.Errorf("device %d: paths: %q is there twice", i+1, name)
			}
			seen[name] = true
		}
	}
	return nil
}

func (d Device) check() error {
	switch {
	case !resourceForm.MatchString(d.Resource):
		return fmt.Errorf("resource = %q: want the name of a resource, such as \"fpga\"", d.Resource)
	case isTaken(d.Resource):
		return fmt.Errorf("resource = %q: this name has a meaning already", d.Resource)
	case len(d.Paths) == 0:
		return errors.New(`paths: want one at least, such as "/dev/fpga*"`)
	}
	for _, name := range d.Paths {
		if !isBelowDev(name) {
			return fmt.Errorf("paths: %q: want a clean path or pattern below /dev", name)
		}
	}
	for variable, value := range d.Env {
		if !IsVariable(variable) {
			return fmt.Errorf("env: %q is not a variable's name", variable)
		}
		if strings.ContainsRune(value, 0) {
			return fmt.Errorf("env: %s = %q: a variable cannot have this value", variable, value)
		}
	}
	return nil
}
