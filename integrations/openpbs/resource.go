package openpbs

import "strings"

// Resource is a custom resource as the server has it.
type Resource struct{ Type, Flag string }

// ParseResources reads the answer to `list resource`: the custom resources by their names. Each has
// its name on a line, and its attributes indented below it (display in qmgr.c).
func ParseResources(text string) map[string]*Resource {
	all := map[string]*Resource{}
	var r *Resource
	for line := range strings.Lines(text) {
		name, isName := strings.CutPrefix(strings.TrimSpace(line), "Resource ")
		key, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case isName:
			r = &Resource{}
			all[name] = r
		case r != nil && key == "type":
			r.Type = value
		case r != nil && key == "flag":
			r.Flag = value
		}
	}
	return all
}

// diagMessages is the custom resource that hookhost's hook sets: what went wrong in a job, by host.
// The server takes no resources_used of a job at all where it does not know one of them.
const diagMessages = "diag_messages"

// makeResource is the directive that makes it.
const makeResource = "create resource " + diagMessages + " type = string"

// MakeDiagMessages returns the directive that makes diag_messages, none where the server has it.
// known are the server's custom resources.
func MakeDiagMessages(known map[string]*Resource) []Command {
	if known[diagMessages] != nil {
		return nil
	}
	return []Command{{Directive: makeResource}}
}
