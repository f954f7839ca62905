package daemon

import (
	"encoding/json"
	"path/filepath"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/settings"
)

// offline is the fail_action of a hook without which a node cannot run jobs.
var offline = plugin.FailActionList{plugin.FailOfflineVnodes}

// Registry returns this node's hooks: the built-in ones and the registered ones. The latter are in
// hooks.d, beside the configuration, and their programs are copies in the state directory. A
// program gets the same settings from the daemon as from a check of its configuration.
func (p Paths) Registry(cfg *config.File) (*plugin.Registry, error) {
	hooks, off, err := p.builtIn(cfg)
	if err != nil {
		return nil, err
	}
	node, err := settings.Node(cfg)
	if err != nil {
		return nil, err
	}
	nvml, err := p.Find("nvml")
	if err != nil {
		return nil, err
	}
	return &plugin.Registry{
		Dir: filepath.Join(filepath.Dir(p.Config), "hooks.d"), ProgramDir: filepath.Join(p.State, "hooks"),
		BuiltIn: hooks, Off: off, AllowUnsafePaths: cfg.Host.AllowUnsafeHooks, Node: node,
		Settings: map[string]string{
			"state_dir": p.State, "run_dir": p.beside(""), "nvml": nvml, "aux_dir": p.Aux(), "remsh": remsh(),
		},
	}, nil
}

// builtIn returns the hooks that come with hookhost, and the names of those that are off. There are
// none of either if [host] disables hookhost on this host.
//
// Their order, freq and fail_action follow OpenPBS's own cgroups hook, except for mpi and
// container. A node can run jobs without these, so their failure does not put it offline. A single
// crash or alarm of the others does not harm the next job, so it counts against the job. A hook
// that crashes repeatedly is disabled for a while, which is an error of the node.
//
// mpi's periodic is more frequent, so that a process outside its job does not stay free for long.
// devices and walltime come after cgroup, because the filter and the signals need the cgroup that
// it has made. private comes after them, because it removes files of processes that cgroup has
// ended. It also runs without [private] as long as there is something that it has to remove.
// container is last, because it wraps the program with the variables that the others have set. The
// alarms are shorter than pbs_mom's for the shim (integrations/openpbs), so that the fail_action of
// a hook that hangs reaches pbs_mom.
func (p Paths) builtIn(cfg *config.File) (hooks []plugin.Hook, off []string, err error) {
	if !cfg.Host.Enabled {
		return nil, nil, nil
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, nil, err
	}
	usual := plugin.DefaultAttributes().Freq
	for _, b := range []struct {
		name    string
		order   int
		enabled bool
		alarm   int // seconds
		freq    int // seconds
		fail    plugin.FailActionList
	}{
		{"cgroup", 100, true, 60, usual, offline},
		{"devices", 110, cfg.Devices.Enabled, 60, usual, offline},
		{"walltime", 120, cfg.Walltime.Enabled, 60, usual, offline},
		{"mpi", 130, cfg.MPI.Enabled, 30, 30, nil},
		{"private", 140, cfg.Private.IsOn() || p.hasPrivate(), 60, usual, offline},
		{"container", 150, cfg.Container.Enabled, 30, usual, nil},
	} {
		if !b.enabled {
			off = append(off, b.name)
			continue
		}
		program, err := p.Find(filepath.Join("hooks", b.name))
		if err != nil {
			return nil, nil, err
		}
		a := plugin.DefaultAttributes()
		a.Type, a.Order, a.Alarm, a.Freq, a.FailAction = plugin.TypePBS, b.order, b.alarm, b.freq, b.fail
		if len(b.fail) > 0 {
			a.OnAlarm, a.OnDefect = plugin.BlameJob, plugin.BlameJob
		}
		hooks = append(hooks, plugin.Hook{
			Name: b.name, Attributes: a, Program: program, ConfigData: text, BuiltIn: true,
		})
	}
	return hooks, off, nil
}
