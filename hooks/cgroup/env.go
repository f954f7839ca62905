package main

import (
	"strconv"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
)

// A job's programs can read in their environment what the job got on this host. They may choose the
// size of a heap by it, or the number of threads. Hook devices adds PBS_JOB_GPUS.

// variableNames are the variables that a job's programs may have.
var variableNames = []string{"PBS_JOB_CPUS", "PBS_JOB_MEM", "PBS_JOB_NCPUS", "PBS_JOB_WALLTIME"}

// variables returns the variables for the programs of a job with the mark m and the request a. What
// is unknown or unlimited has no variable. m has no limits if hookhost did not begin the job.
func (p *policy) variables(m cgroup.JobMark, a ask) map[string]string {
	env := map[string]string{}
	if m.Limits != nil && !m.Limits.CPUs.IsEmpty() {
		env["PBS_JOB_CPUS"] = m.Limits.CPUs.String()
	}
	for name, amount := range map[string]int64{
		"PBS_JOB_MEM":      memShare(m, a),
		"PBS_JOB_NCPUS":    int64(m.NCPUs),
		"PBS_JOB_WALLTIME": int64(p.walltime(a) / time.Second),
	} {
		if amount > 0 {
			env[name] = strconv.FormatInt(amount, 10)
		}
	}
	return env
}

// memShare returns the memory that the job was given, in bytes, or 0. Without [memory] that is its
// request. The memory of all jobs together is no job's share.
func memShare(m cgroup.JobMark, a ask) int64 {
	switch {
	case m.AllMem:
		return 0
	case m.Limits != nil && m.Limits.Mem != nil:
		return *m.Limits.Mem
	case a.Mem != nil:
		return int64(*a.Mem)
	}
	return 0
}

// walltime returns how long the job may run, or 0. Hook walltime rejects a request that is no
// duration.
func (p *policy) walltime(a ask) time.Duration {
	asked, err := pbs.ParseDuration(a.list["walltime"])
	if err != nil {
		asked = 0
	}
	return p.Walltime.Limit(asked)
}

// setVariables makes a launch set these variables. It removes the others, which qsub -V may have
// copied from another job.
func setVariables(out *hostapi.Outcome, req *hostapi.Request, env map[string]string) {
	out.SetEnv = env
	for _, name := range variableNames {
		if _, passed := req.Env[name]; passed && env[name] == "" {
			out.UnsetEnv = append(out.UnsetEnv, name)
		}
	}
}
