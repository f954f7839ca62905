package openpbs

import (
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/pbs"
)

// The types of a resource, from which the shim makes values.
const (
	typeLong     = "long"
	typeFloat    = "float"
	typeSize     = "size"
	typeString   = "string"
	typeDuration = "duration"
	typeBoolean  = "boolean"
)

// resourceType returns the type of a resource: from PBS's own definition if there is one, otherwise
// from the form of the value.
func resourceType(name, value string) string {
	kind := pbs.Type(name)
	switch {
	case kind != "":
		return kind
	case name == "cpupercent":
		return typeLong
	case name == DiagMessages || name == HostUsage:
		return typeString
	case value == "True" || value == "False":
		return typeBoolean
	case isLong(value):
		return typeLong
	case isFloat(value):
		return typeFloat
	case isSize(value):
		return typeSize
	}
	return typeString
}

func isLong(value string) bool {
	_, err := strconv.ParseInt(value, 10, 64)
	return err == nil && !strings.HasPrefix(value, "+")
}

// isFloat excludes what only Go accepts as a float: 0x1p4, Inf, 1_000.
func isFloat(value string) bool {
	if strings.Trim(value, "+-.0123456789eE") != "" {
		return false
	}
	_, err := strconv.ParseFloat(value, 64)
	return err == nil
}

func isSize(value string) bool {
	_, err := pbs.ParseSize(value)
	return err == nil
}
