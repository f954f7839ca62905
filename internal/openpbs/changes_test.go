package openpbs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// verbFields is how many fields follow each verb.
var verbFields = map[string]int{
	verbLog: 2, verbUsed: 4, verbVnode: 5, verbOffline: 2, verbOnline: 2, verbProgname: 1, verbArgv: 0, verbArg: 1,
	verbSetenv:   2,
	verbUnsetenv: 1, verbHold: 0, verbRerun: 0, verbDelete: 0, verbRestart: 0, verbAccept: 0, verbReject: 1, verbAsk: 0,
}

var errTruncated = errors.New("changes: truncated")

// parseChanges is the inverse of Fields, as the shim reads it. parseChanges fails on another
// version, an unknown verb, and on text that ends too early or too late.
func parseChanges(b []byte) (*Changes, error) {
	if len(b) == 0 || b[len(b)-1] != 0 {
		return nil, errTruncated
	}
	fields := strings.Split(string(b[:len(b)-1]), "\x00")
	if fields[0] != version {
		return nil, fmt.Errorf("changes: version %q is not %s", fields[0][:min(len(fields[0]), 32)], version)
	}
	c := &Changes{}
	for fields = fields[1:]; len(fields) > 0; {
		verb := fields[0]
		if verb == verbEnd {
			if len(fields) > 1 {
				return nil, fmt.Errorf("changes: %d fields behind the end", len(fields)-1)
			}
			return c, nil
		}
		n, known := verbFields[verb]
		if !known {
			return nil, fmt.Errorf("changes: unknown verb %q", verb[:min(len(verb), 32)])
		}
		if len(fields) <= n {
			return nil, errTruncated
		}
		change := Change{Verb: verb}
		if n > 0 {
			change.Fields = slices.Clone(fields[1 : 1+n])
		}
		c.List = append(c.List, change)
		fields = fields[1+n:]
	}
	return nil, errTruncated
}
