package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// launcher is a family of MPI launchers and the variables by which it is told its remote shell, or
// a job's hosts.
type launcher struct {
	// settled are the variables by which a user settles the same: one of them, and the family is
	// left alone.
	settled []string
	set     func(f facts) map[string]string
}

// facts are what the variables depend on.
type facts struct {
	remsh    string // "" for none
	hostfile string // "" for none
	tm       bool   // the job has a task manager: what TM starts is in the job on every host
}

// launchers is the table of docs/mpi.md. Options of a command line beat variables in each of them.
//
// A launcher with TM takes a job's PBS_ENVIRONMENT and PBS_JOBID for a sign that there is one. The
// launcher would fail without TM, as under `hookhost run`. So the table turns TM off there.
var launchers = []launcher{
	{ // Open MPI 4 (orte/mca/plm/rsh), which asks for TM first (plm/tm has the higher priority)
		settled: []string{"OMPI_MCA_plm_rsh_agent", "OMPI_MCA_pls_rsh_agent", "OMPI_MCA_orte_rsh_agent",
			"OMPI_MCA_plm"},
		set: func(f facts) map[string]string {
			return withoutTM(f, agent(f, "OMPI_MCA_plm_rsh_agent"), "OMPI_MCA_plm", "^tm")
		},
	},
	{ // Open MPI 4 without TM reads no PBS_NODEFILE. A build with TM does not read this variable.
		settled: []string{"OMPI_MCA_orte_default_hostfile"},
		set: func(f facts) map[string]string {
			if f.hostfile == "" {
				return nil
			}
			return map[string]string{"OMPI_MCA_orte_default_hostfile": f.hostfile}
		},
	},
	{ // PRRTE of Open MPI 5 reads PBS_NODEFILE whether it has TM or not (prte/mca/ras/pbs).
		settled: []string{"PRTE_MCA_plm_ssh_agent", "PRTE_MCA_plm_rsh_agent", "PRTE_MCA_plm",
			"PRTE_MCA_prte_default_hostfile"},
		set: func(f facts) map[string]string {
			return withoutTM(f, agent(f, "PRTE_MCA_plm_ssh_agent"), "PRTE_MCA_plm", "^tm")
		},
	},
	// Hydra of MPICH and MVAPICH, which reads PBS_NODEFILE. A Hydra with TM does not read the agent
	// (HYDRA_LAUNCHER_EXEC) unless the launcher (HYDRA_LAUNCHER) is set.
	{
		settled: []string{"HYDRA_LAUNCHER", "HYDRA_BOOTSTRAP", "HYDRA_LAUNCHER_EXEC", "HYDRA_BOOTSTRAP_EXEC"},
		set: func(f facts) map[string]string {
			return withoutTM(f, agent(f, "HYDRA_LAUNCHER_EXEC"), "HYDRA_LAUNCHER", "ssh")
		},
	},
	{ // Intel MPI
		settled: []string{"I_MPI_HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP_EXEC"},
		set: func(f facts) map[string]string {
			if f.remsh == "" {
				return nil
			}
			return map[string]string{"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": f.remsh}
		},
	},
}

// agent sets name to remsh, if there is one.
func agent(f facts, name string) map[string]string {
	if f.remsh == "" {
		return nil
	}
	return map[string]string{name: f.remsh}
}

// withoutTM adds name to set where there is no task manager.
func withoutTM(f facts, set map[string]string, name, value string) map[string]string {
	if set != nil && !f.tm {
		set[name] = value
	}
	return set
}

// variables returns what is to be set in an environment: nothing that is there, and nothing of a
// family of which a variable is there.
func variables(env map[string]string, f facts) map[string]string {
	set := map[string]string{}
	for _, l := range launchers {
		settled := slices.ContainsFunc(l.settled, func(name string) bool { _, there := env[name]; return there })
		if !settled {
			maps.Copy(set, l.set(f))
		}
	}
	return set
}

// ExecjobLaunch sets the variables for the program of a job on several hosts. A failure is a note:
// most programs need none of the variables.
func (h *hook) ExecjobLaunch(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	job := req.Job
	if !spans(job) {
		return &hostapi.Outcome{}, nil
	}
	out := &hostapi.Outcome{}
	f := facts{remsh: h.remsh}
	_, f.tm = req.Env["PBS_JOBCOOKIE"]
	if h.policy.MPI.Hostfile {
		var err error
		if f.hostfile, err = writeHostfile(h.aux, job, req.Node); err != nil {
			h.log.WithField("job", job.ID).Warnf("host file: %v", err)
			out.Notes = []string{fmt.Sprintf("Open MPI was not told the job's hosts: %v", err)}
		}
	}
	if set := variables(req.Env, f); len(set) > 0 {
		out.SetEnv = set
	}
	return out, nil
}

// spans reports whether a job is on more than one host.
func spans(job *hostapi.Job) bool {
	if !strings.Contains(job.ExecVnode, "+") { // nearly all jobs
		return false
	}
	chunks, err := pbs.JobChunks(job.ExecVnode, job.ExecHost2)
	if err != nil || len(chunks) == 0 {
		return false // not this hook's to tell
	}
	for _, c := range chunks[1:] {
		if c.Host != chunks[0].Host {
			return true
		}
	}
	return false
}
