package pbs

// CleanUpComment is the text in the comment of vnodes that the cgroup hook has taken offline, in the words of OpenPBS's own hook
// (pbs_cgroups.PY, take_node_offline). By it whoever made it, or reads it, knows whose it is.
const CleanUpComment = "Hook cgroup: Unable to clean up one or more cgroups"
