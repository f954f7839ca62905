package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/systemd"
)

// manager is what doctor knows of this node's systemd.
type manager struct {
	mode    string // cgroup.systemd
	unit    string // the parent of all jobs
	running bool
	version int
	err     error // it did not say its version
	active  bool  // the unit is
	made    bool  // the unit's cgroup is there
	// delegated: systemd has marked the unit's cgroup as somebody else's (trusted.delegate, systemd 236).
	delegated bool
}

// systemdRuns tells whether systemd is the first process of this node.
func systemdRuns() bool { return systemd.New(systemd.Run, 0).Running() }

func examineSystemd(ctx context.Context, cfg *config.File, roots kernfs.Roots) []finding {
	s := systemd.New(systemd.Run, time.Duration(cfg.Cgroup.SystemdWait))
	m := manager{mode: cfg.Cgroup.Systemd, unit: cfg.Cgroup.Prefix + ".service", running: s.Running()}
	if m.running {
		m.version, m.err = s.Version(ctx)
		m.active = s.Active(m.unit)
		m.made = roots.Cgroup.Exists(m.unit)
		mark, err := roots.Cgroup.Xattr(m.unit, "trusted.delegate")
		m.delegated = err == nil && string(mark) == "1" || errors.Is(err, kernfs.ErrUnsupported)
	}
	return m.examine()
}

func (m manager) examine() []finding {
	const what = "systemd"
	switch {
	case !m.running && m.mode == "require":
		return []finding{blocking(what, `it is not the first process of this node, and systemd = "require"`, `set systemd = "auto" in [cgroup]`)}
	case !m.running:
		return []finding{ok(what, "not the first process of this node: jobs are in plain directories")}
	case m.mode == "off":
		return []finding{degraded(what, `systemd = "off": at a daemon-reload systemd may take controllers from the jobs' directories`, `set systemd = "auto" in [cgroup]`)}
	case m.err != nil:
		return []finding{blocking(what, m.err.Error(), "see systemctl status and the socket /run/systemd/private")}
	}
	first := ok(what, fmt.Sprintf("version %d", m.version))
	if m.version < 236 {
		first = degraded(what, fmt.Sprintf("version %d: too old to tell which cgroups it leaves alone", m.version), "systemd 236 or newer")
	}
	return []finding{first, m.examineUnit()}
}

func (m manager) examineUnit() finding {
	what := "unit of the jobs"
	switch {
	case !m.active && !m.made:
		return ok(what, m.unit+" is made when the daemon or a job starts")
	case !m.active:
		return degraded(what, m.unit+" is not active, and its cgroup is there: whoever made it, systemd does not know it", "systemctl start "+m.unit)
	case m.made && !m.delegated:
		return blocking(what, m.unit+" is without Delegate=yes: systemd would take the jobs' controllers away", "systemctl cat "+m.unit+", and give it Delegate=yes; or delete its unit file")
	}
	return ok(what, m.unit+" is active and delegated")
}
