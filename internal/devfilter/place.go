// Package devfilter lets the processes of a job open only the devices in a list of devrule's rules.
// On cgroup v1 it uses the list of the devices controller. On v2 it uses an eBPF program compiled
// from the same rules. The same tests hold both to devrule.Allows. The package does not choose
// devices and stores nothing: the cgroup itself shows what is in force.
//
// If a filter is not in force, that is always an error, never a warning. A filter does not replace
// file permissions: the kernel checks them too.
//
// The filter is on the job's cgroup and survives hookhost. The unit that contains all jobs has
// none, because systemd replaces the filters of units that it manages.
package devfilter

import (
	"errors"

	"github.com/hookhost/hookhost/internal/devrule"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// Place is where a job's filter is: one of the two.
type Place struct {
	V2 string     // absolute path of the job's v2 cgroup
	V1 *kernfs.FS // the job's directory in the v1 devices hierarchy
}

// check fails unless exactly one is set.
func (p Place) check() error {
	if (p.V2 == "") == (p.V1 == nil) {
		return errors.New("device filter: the job has no one cgroup to put it on")
	}
	return nil
}

// Install makes rules the filter of p, replaces an earlier filter, and reads back that it is in
// force. It is idempotent, and writes nothing if the filter is already in force. After an error the
// job may open at most what the earlier or the new rules allow. A place that had no filter may
// still allow everything then, so the job must not begin.
//
// Meanwhile, a device that both the old and the new rules allow can always be opened. A device that
// neither allows can never be opened. installV1 describes exceptions. An open device stays open:
// the kernel checks when a device is opened, not when it is used. The filter remains when this
// process ends. Calls for one place must not overlap.
func Install(p Place, rules []devrule.Rule) error {
	return install(p, rules, true)
}

func install(p Place, rules []devrule.Rule, replace bool) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.V1 != nil {
		return installV1(p.V1, rules)
	}
	return installV2(p.V2, rules, replace)
}

// InForce returns nil if exactly the filter of these rules is in force on p. On v2 other programs
// (systemd's) may be there as well. All of them must allow a device, so they can only deny more.
func InForce(p Place, rules []devrule.Rule) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.V1 != nil {
		return inForceV1(p.V1, rules)
	}
	return inForceV2(p.V2, rules)
}
