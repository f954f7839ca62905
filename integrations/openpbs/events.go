package openpbs

import (
	"fmt"
	"slices"
	"strings"
)

// Events are all that MoM has for a hook, in the order in which PBS lists them
// (hook_event_as_string in hook.c).
var Events = []string{
	"execjob_begin", "execjob_prologue", "execjob_epilogue", "execjob_end", "execjob_preterm", "execjob_launch",
	"exechost_periodic",
	"exechost_startup", "execjob_attach", "execjob_resize", "execjob_abort", "execjob_postsuspend", "execjob_preresume",
}

// unhandled is the event that neither the daemon nor a hook that comes with hookhost needs.
const unhandled = "execjob_prologue"

// Events are those at which MoM calls the hook, in PBS's order. MoM starts a process for each, and
// a job's start waits for it.
func (r Registration) Events() []string {
	return slices.DeleteFunc(slices.Clone(Events), func(e string) bool {
		return e == unhandled && !slices.Contains(r.More, e)
	})
}

// checkMore returns an error for the first of More that MoM does not have.
func (r Registration) checkMore() error {
	for _, e := range r.More {
		if !slices.Contains(Events, e) {
			return fmt.Errorf("event %q: want one of pbs_mom's: %s", e, strings.Join(Events, ", "))
		}
	}
	return nil
}
