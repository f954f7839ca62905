package openpbs

// Events are those of a hook of hookhost's, in the order in which PBS lists them
// (hook_event_as_string in hook.c): all that MoM has.
var Events = []string{
	"execjob_begin", "execjob_prologue", "execjob_epilogue", "execjob_end", "execjob_preterm", "execjob_launch",
	"exechost_periodic",
	"exechost_startup", "execjob_attach", "execjob_resize", "execjob_abort", "execjob_postsuspend", "execjob_preresume",
}
