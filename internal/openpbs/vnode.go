package openpbs

import (
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

const (
	stateOffline = "offline"
	stateFree    = "free"
)

// addVnodes adds the changes of vnodes: what hooks publish, sorted by name and by attribute for
// each, and which vnodes go offline or come back.
func (e *Event) addVnodes(c *Changes, out *hostapi.Outcome, custom Custom, o Offlining) {
	vnodes := out.Vnodes
	if e.Request.Event == hostapi.EventStartup {
		vnodes = withResources(vnodes, e.Request.Node, custom)
	}
	for _, name := range slices.Sorted(maps.Keys(vnodes)) {
		if v := vnodes[name]; v != nil && isVnodeName(name) {
			e.addVnode(c, name, v)
		}
	}
	e.addOffline(c, o)
}

// AddState adds the state of hookhost on this host to the vnodes of an outcome. It is ok, degraded
// if a configured hook cannot work, or "" if hookhost leaves the host alone. AddState adds it only
// to a startup or a periodic that MoM sends. At a periodic it adds only what differs from the
// vnode_list, in which MoM repeats the answers to earlier events. A MoM that was restarted has
// forgotten them, but the server has not (src/server/node_manager.c, update2_to_vnode).
func (e *Event) AddState(out *hostapi.Outcome, state string) {
	event := e.Request.Event
	if event != hostapi.EventStartup && event != hostapi.EventPeriodic || len(e.Request.VnodeList) == 0 {
		return
	}
	vnodes := map[string]*hostapi.Vnode{}
	maps.Copy(vnodes, out.Vnodes)
	// The vnodes of the event, and those that a hook adds.
	for _, name := range slices.AppendSeq(e.vnodeNames(), maps.Keys(out.Vnodes)) {
		told := ""
		if known := e.Request.VnodeList[name]; known != nil {
			told = known.ResourcesAvailable[HookhostState]
		}
		if told != state || event == hostapi.EventStartup {
			vnodes[name] = withAvailable(vnodes[name], hostapi.Resources{HookhostState: state})
		}
	}
	out.Vnodes = vnodes
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
	with := map[string]*hostapi.Vnode{}
	maps.Copy(with, vnodes)
	with[node] = withAvailable(vnodes[node], missing)
	return with
}

// withAvailable returns a vnode that also has these resources. v may be nil.
func withAvailable(v *hostapi.Vnode, resources hostapi.Resources) *hostapi.Vnode {
	var with hostapi.Vnode
	if v != nil {
		with = *v
	}
	maps.Copy(resources, with.ResourcesAvailable)
	with.ResourcesAvailable = resources
	return &with
}

// isVnodeName rejects what would break a line of OUT.
func isVnodeName(name string) bool {
	return name != "" && !strings.ContainsFunc(name,
		func(r rune) bool { return r <= ' ' || r == 0x7f || r == '"' || r == '=' })
}

func (e *Event) addVnode(c *Changes, name string, v *hostapi.Vnode) {
	if v.Comment != nil {
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
	case v.State == "" || v.Comment == nil: // see addOffline
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
