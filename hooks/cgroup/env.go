package main

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
)

// A job's programs can read in their environment what the job got on this host. They may choose the
// size of a heap by it, or the number of threads. Hook devices adds PBS_JOB_GPUS.

// variables returns the variables for the programs of a job with the mark m and the request a. An
// amount that is unknown or unlimited has an empty value. m has no limits if the job began before
// hookhost was installed.
func (p *policy) variables(m cgroup.JobMark, a ask) map[string]string {
	env := map[string]string{"PBS_JOB_CPUS": ""}
	if m.Limits != nil {
		env["PBS_JOB_CPUS"] = m.Limits.CPUs.String()
	}
	for name, amount := range map[string]int64{
		"PBS_JOB_MEM":      memShare(m, a),
		"PBS_JOB_NCPUS":    int64(m.NCPUs),
		"PBS_JOB_WALLTIME": int64(p.walltime(a) / time.Second),
	} {
		env[name] = ""
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

// setVariables makes the answer to a launch or an attach set the variables that have a value. At a
// launch it removes the others, which qsub -V may have copied from another job. Attach needs no
// Outcome.AttachEnv of begin: it reads the job's mark in any case.
func setVariables(out *hostapi.Outcome, req *hostapi.Request, env map[string]string) {
	out.SetEnv = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		_, has := req.Env[name] // only launch has an environment
		switch {
		case env[name] != "":
			out.SetEnv[name] = env[name]
		case has:
			out.UnsetEnv = append(out.UnsetEnv, name)
		}
	}
}
