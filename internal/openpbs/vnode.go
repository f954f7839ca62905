package openpbs

import (
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

const (
	stateOffline = "offline"
	stateFree    = "free"
)

// cgroupComment is the text that the shim adds to the server's comment of a vnode, and removes from
// it.
const cgroupComment = pbs.CleanUpComment

// addVnodes adds the changes of vnodes, sorted by name, and by attribute for each. The changes are
// what hooks publish, what they take offline or put back, and what fail_action does to all vnodes
// of this host.
func (e *Event) addVnodes(c *Changes, out *hostapi.Outcome, custom Custom) {
	vnodes := out.Vnodes
	if e.Request.Event == hostapi.EventStartup {
		vnodes = withResources(vnodes, e.Request.Node, custom)
	}
	own := e.vnodeNames()
	failed, recovered := slices.Contains(out.FailAction, failOffline), slices.Contains(out.FailAction, failClear)
	names := map[string]bool{}
	for name := range vnodes {
		names[name] = true
	}
	if failed || recovered {
		for _, name := range own {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if v := vnodes[name]; v != nil && isVnodeName(name) {
			e.addVnode(c, name, v)
		}
		switch text := "offlined by hook '" + e.Hook + "' due to hook error"; {
		case !slices.Contains(own, name):
		case failed:
			c.add(verbOffline, name, text)
		case recovered:
			c.add(verbOnline, name, text)
		}
	}
}

// withResources makes the server create the resources by host that it does not know. If a vnode has
// an unknown resource, the server creates it with a suitable type and sends it to all MoMs
// (src/server/node_manager.c, update2_to_vnode). The vnode does not keep the empty value.
func withResources(vnodes map[string]*hostapi.Vnode, node string, custom Custom) map[string]*hostapi.Vnode {
	missing := hostapi.Resources{}
	for _, name := range []string{DiagMessages, HostUsage} {
		if !custom.Knows(name) {
			missing[name] = ""
		}
	}
	if len(missing) == 0 {
		return vnodes
	}
	var v hostapi.Vnode
	if known := vnodes[node]; known != nil {
		v = *known
	}
	maps.Copy(missing, v.ResourcesAvailable)
	v.ResourcesAvailable = missing
	with := map[string]*hostapi.Vnode{}
	maps.Copy(with, vnodes)
	with[node] = &v
	return with
}

// isVnodeName rejects what would break a line of OUT.
func isVnodeName(name string) bool {
	return name != "" && !strings.ContainsFunc(name,
		func(r rune) bool { return r <= ' ' || r == 0x7f || r == '"' || r == '=' })
}

func (e *Event) addVnode(c *Changes, name string, v *hostapi.Vnode) {
	// The shim adds our comment if the hook has none, and does not touch an administrator's
	// offline.
	ours := v.State != "" && v.Comment == nil
	switch {
	case ours && isOffline(v.State):
		c.add(verbOffline, name, cgroupComment)
	case ours:
		c.add(verbOnline, name, cgroupComment)
	case v.Comment != nil:
		c.add(verbVnode, name, "comment", "", typeString, oneLine(*v.Comment))
	}
	for _, resource := range slices.Sorted(maps.Keys(v.ResourcesAvailable)) {
		if value := v.ResourcesAvailable[resource]; resource != "" && nameLength(resource) == len(resource) {
			c.add(verbVnode, name, "resources_available", resource, resourceType(resource, value), oneLine(value))
		}
	}
	if v.Sharing != "" {
		c.add(verbVnode, name, "sharing", "", typeString, oneLine(v.Sharing))
	}
	switch {
	case v.State == "" || ours:
	case isOffline(v.State):
		c.add(verbVnode, name, "state", "", typeString, stateOffline)
	default: // a hook can only remove offline
		c.add(verbVnode, name, "state", "", typeString, stateFree)
	}
}

// isOffline reports whether a state as pbsnodes spells it contains offline.
func isOffline(state string) bool {
	for s := range strings.SplitSeq(state, ",") {
		if strings.TrimSpace(s) == stateOffline {
			return true
		}
	}
	return false
}
