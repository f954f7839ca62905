package openpbs

// Resource is a custom resource as the server has it.
type Resource struct{ Type, Flag string }

// ParseResources reads the answer to `list resource`: the custom resources by their names.
func ParseResources(text string) map[string]*Resource {
	all := map[string]*Resource{}
	for name, attributes := range parseObjects(text, "Resource") {
		all[name] = &Resource{Type: attributes["type"], Flag: attributes["flag"]}
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
