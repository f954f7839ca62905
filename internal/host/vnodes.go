package host

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// vnodes merges what a hook reports about vnodes. Of each vnode, each resource, sharing, state and
// comment is a separate claim.
func (m *merger) vnodes(hook string, from map[string]*hostapi.Vnode) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(from)) {
		v := from[name]
		if v == nil {
			continue
		}
		into := m.out.Vnodes[name]
		if into == nil {
			into = &hostapi.Vnode{}
			put(&m.out.Vnodes, name, into)
		}
		of := " of vnode " + name
		errs = append(errs,
			claimEach(m, "resources_available.", of, hook, &into.ResourcesAvailable, v.ResourcesAvailable),
			m.text("sharing"+of, hook, &into.Sharing, v.Sharing),
			m.text("state"+of, hook, &into.State, v.State),
			claimValue(m, "comment"+of, hook, &into.Comment, v.Comment))
	}
	return errors.Join(errs...)
}

// text merges a text, unless it is "".
func (m *merger) text(thing, hook string, into *string, from string) error {
	if from == "" {
		return nil
	}
	err := m.claim(thing, hook, *into == from)
	if err == nil {
		*into = from
	}
	return err
}

// foreignVnodes removes vnodes of other hosts from a hook's outcome and returns an error that names
// them: PBS believes a host only about its own vnodes.
func foreignVnodes(req *hostapi.Request, out *hostapi.Outcome) error {
	var foreign []string
	for name := range out.Vnodes {
		if !isOwnVnode(req, name) {
			foreign = append(foreign, name)
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	slices.Sort(foreign)
	own := maps.Clone(out.Vnodes)
	for _, name := range foreign {
		delete(own, name)
	}
	out.Vnodes = own
	return hostapi.Errorf(hostapi.KindInternal, "vnodes of other hosts than %s: %s", req.Node,
		strings.Join(foreign, ", "))
}

// isOwnVnode reports whether a vnode is this host's. These are its natural vnode, those named
// host[n], and any that PBS itself lists for this host.
func isOwnVnode(req *hostapi.Request, name string) bool {
	if _, listed := req.VnodeList[name]; listed {
		return true
	}
	host, index, part := strings.Cut(name, "[")
	if host != req.Node {
		return false
	}
	return !part || strings.HasSuffix(index, "]") && len(index) > 1
}
