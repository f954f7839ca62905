package openpbs

import (
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/pbs"
)

// The types of a resource, as the shim makes values of them.
const (
	typeLong     = "long"
	typeFloat    = "float"
	typeSize     = "size"
	typeString   = "string"
	typeDuration = "duration"
	typeBoolean  = "boolean"
)

// resourceType is the type of a resource: PBS's own definition if there is one, and else what the
// value looks like.
func resourceType(name, value string) string {
	kind := pbs.Type(name)
	switch {
	case kind != "":
		return kind
	case name == "cpupercent":
		return typeLong
	case name == DiagMessages:
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

// isFloat leaves out what only Go takes for one: 0x1p4, Inf, 1_000.
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
