// Command mpi is the hook that has MPI start a job's ranks on other hosts inside the job.
//
// A launcher starts its daemons there by ssh, and what sshd starts is in no job. So at execjob_launch this hook sets the variables by which
// Open MPI, PRRTE, Hydra and Intel MPI are told another remote shell, hookhost-remsh, and which hosts the job has (launch.go is the
// table). What the user has settled stays as it is, and so does a job on one host. Nothing is decided from files of the user: the
// hook runs as root.
//
// What got out of its job all the same, such as by plain ssh, it finds from time to time and hands to the host (strays.go; the rules are
// internal/stray's), and it tells which of a job's processes are MPI ranks (ranks.go). It moves no process: that is hook cgroup's.
package main

import "github.com/hookhost/hookhost/hostapi"

func main() { hostapi.Serve(newHook) }
