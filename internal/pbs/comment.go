package pbs

// CleanUpComment is the text in the comment of vnodes that the cgroup hook has taken offline, in
// the words of OpenPBS's own hook (pbs_cgroups.PY, take_node_offline). The writers and readers of
// the comment know by it whose it is.
const CleanUpComment = "Hook cgroup: Unable to clean up one or more cgroups"
