package host

import (
	"maps"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// momVariables are the variables of MoM that describe a job and not one of its tasks (openpbs
// src/resmom/start_exec.c).
var momVariables = []string{"NCPUS", "OMP_NUM_THREADS", "PBS_JOBDIR", "PBS_JOBNAME", "PBS_NODEFILE", "PBS_O_WORKDIR",
	"PBS_QUEUE", "TMPDIR"}

// longestVariable bounds a value that the job's user may have chosen, which the record contains.
const longestVariable = 4096

// launchEnv returns the variables of a program that a login session of its job gets too. MoM or
// hooks have set them. req has the environment that the hooks left.
func launchEnv(req *hostapi.Request, hooks *hostapi.Outcome) map[string]string {
	env := map[string]string{}
	for _, name := range momVariables {
		if value, set := req.Env[name]; set && len(value) <= longestVariable {
			env[name] = value
		}
	}
	for name, value := range hooks.SetEnv {
		if len(value) <= longestVariable {
			env[name] = value
		}
	}
	return env
}

// LoginEnv returns the variables of a login session that is part of the record's job: PBS_JOBID,
// those of the first program that was launched here, and those of attached processes.
func LoginEnv(rec *jobstate.Record) map[string]string {
	env := map[string]string{}
	maps.Copy(env, rec.LaunchEnv)
	for _, hook := range slices.Sorted(maps.Keys(rec.AttachEnv)) {
		maps.Copy(env, rec.AttachEnv[hook])
	}
	env["PBS_JOBID"] = rec.Job.ID
	return env
}
