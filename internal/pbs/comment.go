package pbs

// CleanUpComment is the comment of vnodes that the cgroup hook has taken offline, in the words of
// OpenPBS's own hook (pbs_cgroups.PY, take_node_offline). Writers and readers recognize the hook's
// vnodes by it.
const CleanUpComment = "Hook cgroup: Unable to clean up one or more cgroups"
