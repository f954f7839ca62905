package devfilter

import (
	"errors"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Place is where the filter of a job is: one of the two.
type Place struct {
	V2 string     // absolute path of the job's v2 cgroup
	V1 *kernfs.FS // the job's directory in the v1 devices hierarchy
}

// check refuses what is no place, or two.
func (p Place) check() error {
	if (p.V2 == "") == (p.V1 == nil) {
		return errors.New("device filter: the job has no one cgroup to put it on")
	}
	return nil
}

// Install makes rules the filter of p, instead of what was there before, and reads back that it is
// in force. Install is idempotent: nothing is written where the filter is in force already. After
// an error the job may open at most what the rules before or the new ones allow. A place that had
// no filter allows everything then: the job must not begin.
//
// A device that the old and the new rules both allow can be opened at each moment. A device that
// neither allows can be opened at none. installV1 has the exceptions. An open device stays open:
// the kernel asks when a device is opened, not when it is used. The filter stays when this process
// ends. Calls for one place must not overlap.
func Install(p Place, rules []Rule) error {
	return install(p, rules, true)
}

func install(p Place, rules []Rule, replace bool) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.V1 != nil {
		return installV1(p.V1, rules)
	}
	return installV2(p.V2, rules, replace)
}

// InForce returns nil when the filter of these rules is in force on p, and no other of ours. On v2,
// programs of others (systemd's) may be there too: a device has to pass all of them, so they can
// only deny more.
func InForce(p Place, rules []Rule) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.V1 != nil {
		return inForceV1(p.V1, rules)
	}
	return inForceV2(p.V2, rules)
}
