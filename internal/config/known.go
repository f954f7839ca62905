package config

import (
	"slices"
	"strings"
)

// ownResources are those that hookhost itself reads or fills in, beside what it shares with PBS.
var ownResources = []string{"kill_delay", "walltime_signal", "cgswap"}

// KnowsResource tells whether PBS, hookhost or the file has a resource of that name. A site's own hooks may well know others. Names have
// no case.
func (f *File) KnowsResource(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(taken, name) || slices.Contains(ownResources, name) ||
		slices.ContainsFunc(takenPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) ||
		slices.ContainsFunc(f.Device, func(d Device) bool { return strings.EqualFold(d.Resource, name) })
}
