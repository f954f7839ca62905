package kernfstest

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// devices is the v1 device controller (cgroup-v1/devices.rst; security/device_cgroup.c). It allows
// everything or, after "a" was denied, a list. Exceptions while everything is allowed are not
// implemented.
type devices struct {
	deny bool
	list []device
}

// device is one exception. Numbers are text: "*" means any.
type device struct{ kind, major, minor, access string }

func (d device) String() string { return d.kind + " " + d.major + ":" + d.minor + " " + d.access }

// covers reports whether d includes everything in o.
func (d device) covers(o device) bool {
	return d.kind == o.kind && (d.major == "*" || d.major == o.major) && (d.minor == "*" || d.minor == o.minor) &&
		without(o.access, d.access) == ""
}

// without returns a without the letters of b.
func without(a, b string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(b, r) {
			return -1
		}
		return r
	}, a)
}

func (s *devices) permits(d device) bool {
	return !s.deny || slices.ContainsFunc(s.list, func(have device) bool { return have.covers(d) })
}

// add merges d into the exception for the same numbers (dev_exception_add).
func (s *devices) add(d device) {
	for i, have := range s.list {
		if have.kind == d.kind && have.major == d.major && have.minor == d.minor {
			s.list[i].access = without("rwm", without(without("rwm", have.access), d.access))
			return
		}
	}
	s.list = append(s.list, d)
}

// remove takes d's access from the exception for the same numbers (dev_exception_rm).
func (s *devices) remove(d device) {
	for i, have := range s.list {
		if have.kind == d.kind && have.major == d.major && have.minor == d.minor {
			s.list[i].access = without(have.access, d.access)
		}
	}
	s.list = slices.DeleteFunc(s.list, func(have device) bool { return have.access == "" })
}

var devicesKnobs = []knob{
	{name: "devices.allow", store: allowDevice},
	{name: "devices.deny", store: denyDevice},
	reads("devices.list", func(g *cgroup) string {
		if !g.devices.deny {
			return "a *:* rwm\n"
		}
		var b strings.Builder
		for _, d := range g.devices.list {
			b.WriteString(d.String() + "\n")
		}
		return b.String()
	}),
}

func allowDevice(g *cgroup, v string) error {
	if strings.HasPrefix(v, "a") {
		if len(g.children) > 0 {
			return unix.EINVAL
		}
		if g.parent != nil && g.parent.devices.deny {
			return unix.EPERM
		}
		g.devices = devices{}
		return nil
	}
	d, err := parseDevice(v)
	if err != nil {
		return err
	}
	if g.parent != nil && !g.parent.devices.permits(d) {
		return unix.EPERM
	}
	if g.devices.deny {
		g.devices.add(d)
	}
	return nil
}

func denyDevice(g *cgroup, v string) error {
	if strings.HasPrefix(v, "a") {
		if len(g.children) > 0 {
			return unix.EINVAL
		}
		g.devices = devices{deny: true}
		return nil
	}
	d, err := parseDevice(v)
	if err != nil {
		return err
	}
	for below := range g.down { // propagate_exception
		below.devices.remove(d)
		if below != g {
			above := &below.parent.devices
			below.devices.list = slices.DeleteFunc(below.devices.list, func(d device) bool { return !above.permits(d) })
		}
	}
	return nil
}

// parseDevice is devcgroup_update_access. It parses "c 1:3 rwm".
func parseDevice(v string) (device, error) {
	f := strings.Split(v, " ")
	if len(f) != 3 || f[0] != "b" && f[0] != "c" {
		return device{}, unix.EINVAL
	}
	major, minor, ok := strings.Cut(f[1], ":")
	if !ok || !isNumber(major) || !isNumber(minor) || f[2] == "" || len(f[2]) > 3 || without(f[2], "rwm") != "" {
		return device{}, unix.EINVAL
	}
	return device{kind: f[0], major: major, minor: minor, access: without("rwm", without("rwm", f[2]))}, nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 32)
	return s == "*" || err == nil
}
