// Command mpi is the hook that has MPI start a job's ranks on other hosts inside the job.
//
// A launcher starts its daemons there by ssh, and what sshd starts is in no job. So at
// execjob_launch this hook sets variables of Open MPI, PRRTE, Hydra and Intel MPI. The variables
// name another remote shell, hookhost-remsh, and the job's hosts (launch.go is the table). A
// setting of the user's stays as it is, and so does a job on one host. Nothing is decided from
// files of the user: the hook runs as root.
//
// A process may get out of its job all the same, such as by plain ssh. The hook finds it from time
// to time and hands it to the host (strays.go; the rules are internal/stray's). The hook also
// reports which of a job's processes are MPI ranks (ranks.go). The hook moves no process: that is
// hook cgroup's.
package main

import "github.com/hookhost/hookhost/hostapi"

func main() { hostapi.Serve(newHook) }
