package openpbs

import "strings"

// diagMessages is the custom resource that hookhost's hook sets: what went wrong in a job, by host. The
// server takes no resources_used of a job at all where it does not know one of them.
const diagMessages = "diag_messages"

// makeResource is the directive that makes it.
const makeResource = "create resource " + diagMessages + " type = string"

// Resources returns the directive that makes diag_messages, none where the server has it. list is the
// answer to `list resource`: each custom resource's name on a line, its attributes indented below it
// (display in qmgr.c).
func Resources(list string) []Command {
	for line := range strings.Lines(list) {
		if strings.TrimSpace(line) == "Resource "+diagMessages {
			return nil
		}
	}
	return []Command{{Directive: makeResource}}
}
