package openpbs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// Events returns all events that MoM can send to a hook.
func Events() []string { return names(func(hostapi.Event) bool { return true }) }

// Events returns the events at which MoM calls the hook: all except the optional ones that More
// does not name.
func (r Registration) Events() []string {
	return names(func(e hostapi.Event) bool { return !e.Optional() || slices.Contains(r.More, string(e)) })
}

// names returns the names of the wanted events, in life-cycle order.
func names(wanted func(hostapi.Event) bool) []string {
	var list []string
	for _, e := range hostapi.Events() {
		if wanted(e) {
			list = append(list, string(e))
		}
	}
	return list
}

// checkMore returns an error for the first event in More that MoM does not have.
func (r Registration) checkMore() error {
	for _, e := range r.More {
		if !slices.Contains(Events(), e) {
			return fmt.Errorf("event %q: want one of pbs_mom's: %s", e, strings.Join(Events(), ", "))
		}
	}
	return nil
}
