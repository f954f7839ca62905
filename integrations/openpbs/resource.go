package openpbs

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

// diagMessages is the custom resource that hookhost's hook sets: problems in a job, by host. If the
// server does not know one of a job's resources_used, it rejects all of them.
const diagMessages = "diag_messages"

// makeResource is the directive that creates it.
const makeResource = "create resource " + diagMessages + " type = string"

// MakeDiagMessages returns the directive that creates diag_messages, or none if the server has it.
// known are the server's custom resources.
func MakeDiagMessages(known map[string]*Resource) []Command {
	if known[diagMessages] != nil {
		return nil
	}
	return []Command{{Directive: makeResource}}
}
