package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/systemd"
)

// unit is the parent of all jobs as systemd sees it.
type unit struct {
	mode    string // cgroup.systemd
	name    string
	running bool // systemd is the first process
	version int
	err     error // why its version is unknown
	active  bool  // the unit is active
	made    bool  // the unit's cgroup exists
	// delegated means that systemd has marked the unit's cgroup as delegated (trusted.delegate,
	// systemd 236).
	delegated bool
}

func readUnit(ctx context.Context, s *systemd.System, cfg *config.File, cgroups *kernfs.FS) unit {
	u := unit{mode: cfg.Cgroup.Systemd, name: cfg.Cgroup.Prefix + ".service", running: s.Running()}
	if !u.running {
		return u
	}
	u.version, u.err = s.Version(ctx)
	u.active = s.Active(u.name)
	u.made = cgroups.Exists(u.name)
	mark, err := cgroups.Xattr(u.name, "trusted.delegate")
	u.delegated = err == nil && string(mark) == "1" || errors.Is(err, kernfs.ErrUnsupported)
	return u
}

func (u unit) examine() []Finding {
	const what, auto = "systemd", `set systemd = "auto" in [cgroup]`
	switch {
	case !u.running && u.mode == "require":
		return []Finding{blocking(what, `it is not the first process of this node, and systemd = "require"`, auto)}
	case !u.running:
		return []Finding{ok(what, "not the first process of this node: jobs are in plain directories")}
	case u.mode == "off":
		return []Finding{degraded(what,
			`systemd = "off": at a daemon-reload systemd may take controllers from the jobs' directories`, auto)}
	case u.err != nil:
		return []Finding{blocking(what, u.err.Error(), "see systemctl status and the socket /run/systemd/private")}
	}
	version := ok(what, fmt.Sprintf("version %d", u.version))
	if u.version < 236 {
		version = degraded(what, version.Found+": too old to show which cgroups it leaves alone",
			"systemd 236 or newer")
	}
	return []Finding{version, u.examineDelegation()}
}

func (u unit) examineDelegation() Finding {
	const what = "unit of the jobs"
	switch {
	case !u.active && !u.made:
		return ok(what, u.name+" is created when the daemon or a job starts")
	case !u.active:
		return degraded(what,
			u.name+" is not active, but its cgroup exists: systemd does not manage it",
			"systemctl start "+u.name)
	case u.made && !u.delegated:
		return blocking(what, u.name+" does not have Delegate=yes: systemd would take controllers away from jobs",
			"systemctl cat "+u.name+", and give it Delegate=yes; or delete its unit file")
	}
	return ok(what, u.name+" is active and delegated")
}
