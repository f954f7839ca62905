// Command mpi is the hook that makes MPI start a job's ranks on other hosts inside the job.
//
// A launcher starts its daemons there by ssh, and processes started by sshd are not in any job. So
// at execjob_launch this hook sets variables of Open MPI, PRRTE, Hydra and Intel MPI. The variables
// name the job's hosts and another remote shell, hookhost-remsh (see the table in launch.go). The
// user's settings are respected, and a job on one host is left alone. No decision depends on the
// user's files, since the hook runs as root.
//
// A process may still escape from its job, for example by plain ssh. The hook looks for such
// processes from time to time and hands them to the host (strays.go; the rules are in
// internal/stray). It also reports which of a job's processes are MPI ranks (ranks.go). The hook
// itself does not move processes: hook cgroup does.
package main

import "github.com/hookhost/hookhost/hostapi"

func main() { hostapi.Serve(newHook) }
