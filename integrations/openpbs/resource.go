package openpbs

import (
	"maps"
	"slices"
)

// Resource is a custom resource of the server.
type Resource struct{ Type, Flag string }

// ParseResources reads the answer to `list resource`: the custom resources by name.
func ParseResources(text string) map[string]*Resource {
	all := map[string]*Resource{}
	for name, attributes := range parseObjects(text, "Resource") {
		all[name] = &Resource{Type: attributes["type"], Flag: attributes["flag"]}
	}
	return all
}

// byHost are the custom resources that hookhost's hook sets: a job's problems and its usage, by
// host. If the server does not know one of a job's resources_used, it rejects all of them.
var byHost = []string{"diag_messages", "host_usage"}

// stateResource is the state of hookhost on a vnode. With the flag h, a chunk of select can ask for
// it.
const stateResource = "hookhost"

// containerResource is the custom resource with which a job names its image. Without the flag m,
// MoM does not get it.
const containerResource = "container"

// resources returns the directives that create the custom resources that r needs, by name.
func (r Registration) resources() map[string]string {
	create := map[string]string{}
	for _, name := range byHost {
		create[name] = "create resource " + name + " type = string"
	}
	create[stateResource] = "create resource " + stateResource + " type=string,flag=h"
	if r.Container {
		create[containerResource] = "create resource " + containerResource + " type=string,flag=m"
	}
	return create
}

// MakeResources returns the directives that create the custom resources that r needs and the server
// lacks. known are the server's custom resources.
func (r Registration) MakeResources(known map[string]*Resource) (list []Command) {
	create := r.resources()
	for _, name := range slices.Sorted(maps.Keys(create)) {
		if known[name] == nil {
			list = append(list, Command{Directive: create[name]})
		}
	}
	return list
}
