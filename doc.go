// Package hookhost holds no code: the program is in cmd/hookhost, what a hook's author imports is
// in hostapi, and docs/architecture.md is the map. The test beside this file holds the packages to
// it.
package hookhost
