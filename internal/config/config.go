// Package config reads the node's configuration. That is the file /etc/hookhost/hookhost.toml, or
// the text that PBS has sent. Both have the same form. internal/settings decides which one is in
// force.
//
// The whole file has one schema, which is in this package. So an unknown key is an error with its
// line, and `config check` does not need the hooks' programs. Each hook's folder determines the
// meaning of its values.
//
// default.toml has each setting with its comment and default value. Names follow the keys of
// OpenPBS's pbs_cgroups where one exists (openpbs pbs_cgroups.CF).
package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/spelling"
)

// Path is the path of the file unless HOOKHOST_CONFIG or --config names another.
const Path = "/etc/hookhost/hookhost.toml"

// File is the whole file. Its zero value is not a configuration: start from Default.
type File struct {
	Host     Host     `toml:"host" json:"host"`
	Cgroup   Cgroup   `toml:"cgroup" json:"cgroup"`
	Vnodes   Vnodes   `toml:"vnodes" json:"vnodes"`
	CPU      CPU      `toml:"cpu" json:"cpu"`
	Cpuset   Cpuset   `toml:"cpuset" json:"cpuset"`
	Memory   Memory   `toml:"memory" json:"memory"`
	Memsw    Memsw    `toml:"memsw" json:"memsw"`
	Hugetlb  Hugetlb  `toml:"hugetlb" json:"hugetlb"`
	Pids     Pids     `toml:"pids" json:"pids"`
	IO       IO       `toml:"io" json:"io"`
	Devices  Devices  `toml:"devices" json:"devices"`
	Rlimits  Rlimits  `toml:"rlimits" json:"rlimits"`
	Walltime Walltime `toml:"walltime" json:"walltime"`
	Series   Series   `toml:"series" json:"series"`
	Reports  Reports  `toml:"reports" json:"reports"`
	Metrics  Metrics  `toml:"metrics" json:"metrics"`
	Private  Private  `toml:"private" json:"private"`
	MPI      MPI      `toml:"mpi" json:"mpi"`

	Container Container `toml:"container" json:"container"`

	Billing Billing `toml:"billing" json:"billing"`
	PAM     PAM     `toml:"pam" json:"pam"`
	OpenPBS OpenPBS `toml:"openpbs" json:"openpbs"`
	Shim    Shim    `toml:"shim" json:"shim"`

	// Controllers in which a job has a cgroup without limits of hookhost.
	Blkio     Placing `toml:"blkio" json:"blkio"`
	NetCls    Placing `toml:"net_cls" json:"net_cls"`
	NetPrio   Placing `toml:"net_prio" json:"net_prio"`
	PerfEvent Placing `toml:"perf_event" json:"perf_event"`
	RDMA      Placing `toml:"rdma" json:"rdma"`

	Device []Device `toml:"device,omitempty" json:"device,omitempty"`
	Advice []Advice `toml:"advice,omitempty" json:"advice,omitempty"`

	text []byte // from which it was parsed
	here Here   // for which its conditions were evaluated
}

// Host configures the host process.
type Host struct {
	Enabled          bool     `toml:"enabled" json:"enabled"`
	Node             string   `toml:"node" json:"node"`
	LogLevel         string   `toml:"log_level" json:"log_level"`
	Start            Duration `toml:"start_timeout" json:"start_timeout"`
	AllowUnsafeHooks bool     `toml:"allow_unsafe_hooks" json:"allow_unsafe_hooks"`
}

// Level returns the log level.
func (h Host) Level() logrus.Level {
	l, err := logrus.ParseLevel(h.LogLevel)
	if err != nil {
		return logrus.InfoLevel // check has refused everything else
	}
	return l
}

// Cgroup configures the tree that jobs live in.
type Cgroup struct {
	Prefix      string   `toml:"prefix" json:"prefix"`
	Mount       string   `toml:"mount" json:"mount"`
	Systemd     string   `toml:"systemd" json:"systemd"`
	SystemdWait Duration `toml:"systemd_timeout" json:"systemd_timeout"`
	// EnableControllers reaches beyond the tree that is delegated to jobs.
	EnableControllers []string `toml:"enable_controllers" json:"enable_controllers"`
	Delegate          bool     `toml:"delegate" json:"delegate"`
	KillTimeout       Duration `toml:"kill_timeout" json:"kill_timeout"`
	KillGrace         Duration `toml:"kill_grace" json:"kill_grace"`
}

// Vnodes configures what exechost_startup reports to PBS about this host, and what happens if a
// cgroup cannot be removed.
type Vnodes struct {
	PerNUMANode           bool     `toml:"vnode_per_numa_node" json:"vnode_per_numa_node"`
	PropagateVntype       bool     `toml:"propagate_vntype_to_server" json:"propagate_vntype_to_server"`
	OnlineOfflinedNodes   bool     `toml:"online_offlined_nodes" json:"online_offlined_nodes"`
	OnlineMinDelay        Duration `toml:"online_nodes_min_delay" json:"online_nodes_min_delay"`
	PeriodicResourceUsage bool     `toml:"periodic_resc_update" json:"periodic_resc_update"`
}

// CPU configures the cpu controller.
type CPU struct {
	Enabled                bool     `toml:"enabled" json:"enabled"`
	EnforcePerPeriodQuota  bool     `toml:"enforce_per_period_quota" json:"enforce_per_period_quota"`
	CfsPeriod              Duration `toml:"cfs_period" json:"cfs_period"`
	CfsQuotaFudgeFactor    float64  `toml:"cfs_quota_fudge_factor" json:"cfs_quota_fudge_factor"`
	ZeroCPUsSharesFraction float64  `toml:"zero_cpus_shares_fraction" json:"zero_cpus_shares_fraction"`
	ZeroCPUsQuotaFraction  float64  `toml:"zero_cpus_quota_fraction" json:"zero_cpus_quota_fraction"`
}

// Cpuset configures the cpuset controller and placement.
type Cpuset struct {
	Enabled         bool   `toml:"enabled" json:"enabled"`
	ExcludeCPUs     string `toml:"exclude_cpus" json:"exclude_cpus"`
	MemFences       bool   `toml:"mem_fences" json:"mem_fences"`
	AllowZeroCPUs   bool   `toml:"allow_zero_cpus" json:"allow_zero_cpus"`
	UseHyperthreads bool   `toml:"use_hyperthreads" json:"use_hyperthreads"`
	NCPUsAreCores   bool   `toml:"ncpus_are_cores" json:"ncpus_are_cores"`
	Placement       string `toml:"placement" json:"placement"`

	MemHardwall      bool `toml:"mem_hardwall" json:"mem_hardwall"`
	MemorySpreadPage bool `toml:"memory_spread_page" json:"memory_spread_page"`
}

// Left returns those of cpus that are available to jobs.
func (c Cpuset) Left(cpus kernfs.IDSet) kernfs.IDSet {
	excluded, _ := kernfs.ParseIDSet(c.ExcludeCPUs) // check has refused everything else
	return cpus.Minus(excluded)
}

// Share is the common part of memory, memory plus swap and huge pages: a job's default, and how
// much of the node is reserved.
type Share struct {
	Default               pbs.Size `toml:"default" json:"default"`
	EnforceDefault        bool     `toml:"enforce_default" json:"enforce_default"`
	ExclhostIgnoreDefault bool     `toml:"exclhost_ignore_default" json:"exclhost_ignore_default"`
	ReservePercent        float64  `toml:"reserve_percent" json:"reserve_percent"`
	ReserveAmount         pbs.Size `toml:"reserve_amount" json:"reserve_amount"`
	Hidden                pbs.Size `toml:"vnode_hidden" json:"vnode_hidden"`
}

// Left returns how much of total is available to jobs, in bytes.
func (s Share) Left(total int64) int64 {
	return max(0, total-int64(float64(total)*s.ReservePercent/100)-int64(s.ReserveAmount))
}

// Memory configures the memory controller.
type Memory struct {
	Enabled bool `toml:"enabled" json:"enabled"`
	Share
	Swappiness     int      `toml:"swappiness" json:"swappiness"`
	Enforce        string   `toml:"enforce" json:"enforce"`
	Cache          pbs.Size `toml:"cache" json:"cache"`
	SoftLimit      bool     `toml:"soft_limit" json:"soft_limit"`
	OOMGroup       bool     `toml:"oom_group" json:"oom_group"`
	HighPercent    float64  `toml:"high_percent" json:"high_percent"`
	ManageRlimitAS bool     `toml:"manage_rlimit_as" json:"manage_rlimit_as"`
}

// Memsw configures memory plus swap.
type Memsw struct {
	Enabled bool `toml:"enabled" json:"enabled"`
	Share
	ManageCgswap bool `toml:"manage_cgswap" json:"manage_cgswap"`
}

// Hugetlb configures huge pages. hpmem has the kernel's default size; hpmem_2mb, hpmem_1gb and so
// on name theirs.
type Hugetlb struct {
	Enabled bool `toml:"enabled" json:"enabled"`
	Share
}

// MPI configures hook mpi.
type MPI struct {
	Enabled  bool   `toml:"enabled" json:"enabled"`
	Hostfile bool   `toml:"hostfile" json:"hostfile"`
	Remsh    bool   `toml:"remsh" json:"remsh"`
	Strays   string `toml:"strays" json:"strays"`
	PerTask  bool   `toml:"per_task" json:"per_task"`
}

// Billing configures a job's bill, which is separate from its usage of resources.
type Billing struct {
	Energy        bool `toml:"energy" json:"energy"`
	ResourcesUsed bool `toml:"resources_used" json:"resources_used"`

	Weights map[string]float64 `toml:"weights,omitempty" json:"weights,omitempty"`
}

// check returns an error for the first invalid weight, with its key. NaN is invalid.
func (b Billing) check() error {
	for _, name := range slices.Sorted(maps.Keys(b.Weights)) {
		if w := b.Weights[name]; !(w >= 0 && w <= 1e9) {
			return fmt.Errorf("billing.weights.%s = %v: want 0 to 1000000000", name, w)
		}
	}
	return nil
}

// Series configures the record of usage over time.
type Series struct {
	Interval Duration `toml:"interval" json:"interval"`
}

// Reports configures how many reports of finished jobs are kept, and who else gets them.
type Reports struct {
	Keep      Duration `toml:"keep" json:"keep"`
	KeepSize  pbs.Size `toml:"keep_size" json:"keep_size"`
	JobStderr string   `toml:"job_stderr" json:"job_stderr"` // "" or "summary"
	Directory string   `toml:"directory" json:"directory"`   // "": none
	Command   string   `toml:"command" json:"command"`       // "": none
}

// Placing configures a controller in which a job has a cgroup without limits.
type Placing struct {
	Enabled bool `toml:"enabled" json:"enabled"`
}

// Here returns the values for which the configuration's conditions were evaluated.
func (f *File) Here() Here { return f.here }

// oneLine shortens the parser's errors about a text to one line that names the place.
func oneLine(text []byte, err error) error {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		e := strict.Errors[0]
		line, _ := e.Position()
		key := strings.Join(wholeKey(text, line, e.Key()), ".")
		meant := spelling.Nearest(key, Keys())
		if meant != "" {
			meant = ": did you mean " + meant + "?"
		}
		return fmt.Errorf("line %d: unknown key %q%s", line, key, meant)
	}
	var decode *toml.DecodeError
	if errors.As(err, &decode) {
		line, _ := decode.Position()
		if key := strings.Join(decode.Key(), "."); key != "" {
			if want := wanted(typeAt(reflect.TypeFor[File](), decode.Key())); want != "" &&
				strings.Contains(decode.Error(), "cannot decode TOML") {
				return fmt.Errorf("line %d: %s: want %s", line, key, want)
			}
			return fmt.Errorf("line %d: %s: %s", line, key, strings.TrimPrefix(decode.Error(), "toml: "))
		}
		return fmt.Errorf("line %d: %s", line, strings.TrimPrefix(decode.Error(), "toml: "))
	}
	return err
}

// wholeKey returns the whole of an unknown key at a line. The decoder leaves out what inline tables
// put in front of it.
func wholeKey(text []byte, line int, key []string) []string {
	whole := key
	walkAll(text, func(at []string, atLine int, _ *unstable.Node) {
		if atLine == line && at[len(at)-1] == key[len(key)-1] && typeAt(reflect.TypeFor[File](), at) == nil {
			whole = at
		}
	})
	return whole
}

// wanted describes the values of a type, or returns "".
func wanted(t reflect.Type) string {
	if t == nil {
		return ""
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a text in quotes"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return `a list, such as ["A", "B"]`
		}
		return "a list of tables, such as [{KEY = VALUE}]"
	}
	return ""
}
