package config

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// check returns an error for the first invalid value, with its key.
func (d Devices) check() error {
	for _, entry := range d.Allow {
		if err := checkAllow(entry); err != nil {
			return fmt.Errorf("devices.allow: %v: %w", shownEntry(entry), err)
		}
	}
	return firstBroken(
		rule{"devices.jobs_per_device", d.JobsPerDevice, d.JobsPerDevice >= 1, "1 or more"},
		rule{"devices.blocks", d.Blocks, d.Blocks >= 0, "0 for none, or how many"},
		cleanPath("devices.cdi_dir", d.CDIDir),
		cleanPath("devices.dcgm_job_mapping_dir", d.DCGMDir),
	)
}

var errAllow = errors.New(`want a rule such as "c 195:* rwm", ` +
	`or a list such as ["console", "rw"] or ["tty0", "rwm", "*"]`)

// checkAllow fails unless an entry of devices.allow has one of the forms that pbs_cgroups accepts
// (openpbs pbs_cgroups.PY, the loop over cgroup.devices.allow). It does not check whether the
// device exists.
//
// devfilter.Resolve accepts the same entries. Here, a mistake is reported before it would keep the
// hook from starting.
func checkAllow(entry any) error {
	switch entry := entry.(type) {
	case string:
		return checkRule(entry)
	case []any:
		return checkNamed(entry)
	}
	return errAllow
}

// checkRule accepts "c 195:* rwm", as in devices.allow of cgroup v1.
func checkRule(text string) error {
	fields := strings.Fields(text)
	if len(fields) != 3 || !slices.Contains([]string{"a", "b", "c"}, fields[0]) {
		return errAllow
	}
	major, minor, both := strings.Cut(fields[1], ":")
	if !both {
		return errAllow
	}
	return cmp.Or(checkNumber("major", major, 12), checkNumber("minor", minor, 20), checkAccess(fields[2]))
}

// checkNamed accepts a name in /dev or a pattern of names, an access, and optionally a placeholder
// for the minor number.
func checkNamed(list []any) error {
	if len(list) != 2 && len(list) != 3 {
		return errAllow
	}
	name, isText := list[0].(string)
	access, areTexts := list[1].(string)
	if !isText || !areTexts {
		return errAllow
	}
	if name := "/dev/" + strings.TrimPrefix(name, "/dev/"); !isBelowDev(name) {
		return fmt.Errorf("%q is not a name or pattern in /dev", list[0])
	}
	if len(list) == 3 {
		minor, isText := list[2].(string)
		if n, isNumber := list[2].(int64); isNumber {
			minor = strconv.FormatInt(n, 10)
		} else if !isText {
			return errAllow
		}
		if err := checkNumber("minor", minor, 20); err != nil {
			return err
		}
	}
	return checkAccess(access)
}

// checkNumber accepts "*" or a number of this many bits: MINORBITS is 20 of the 32 bits of a dev_t.
func checkNumber(what, text string, bits int) error {
	if _, err := strconv.ParseUint(text, 10, bits); err != nil && text != "*" {
		return fmt.Errorf("%s %q: want * or a number from 0 to %d", what, text, 1<<bits-1)
	}
	return nil
}

// checkAccess accepts some of the letters r, w and m, each once.
func checkAccess(text string) error {
	rest := "rwm"
	for _, letter := range text {
		if !strings.ContainsRune(rest, letter) {
			return fmt.Errorf("access %q: want one or more of r, w and m, each once", text)
		}
		rest = strings.ReplaceAll(rest, string(letter), "")
	}
	if text == "" {
		return errors.New("access is empty: want one or more of r, w and m")
	}
	return nil
}

// isBelowDev reports whether a path, or a pattern of paths, names something in /dev in the shortest
// way.
func isBelowDev(name string) bool {
	_, err := filepath.Match(strings.TrimPrefix(name, "/dev/"), "") // like devfilter.Resolve
	return err == nil && strings.HasPrefix(name, "/dev/") && path.Clean(name) == name &&
		!strings.ContainsRune(name, 0)
}

// shownEntry formats an entry of devices.allow as the file has it, like devfilter.Show.
func shownEntry(entry any) string {
	switch entry := entry.(type) {
	case string:
		return strconv.Quote(entry)
	case []any:
		items := make([]string, len(entry))
		for i, item := range entry {
			items[i] = shownEntry(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(entry)
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
	return isTaken(name) || slices.Contains(ownResources, strings.ToLower(name)) ||
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
		if !variableForm.MatchString(variable) {
			return fmt.Errorf("env: %q is not a variable's name", variable)
		}
		if strings.ContainsRune(value, 0) {
			return fmt.Errorf("env: %s = %q: a variable cannot have this value", variable, value)
		}
	}
	return nil
}
