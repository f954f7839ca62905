package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// launcher is a family of MPI launchers, with the variables that set the remote shell or a job's
// hosts.
type launcher struct {
	// settled are variables with which users choose for themselves. If one of them is set, the
	// family is left alone.
	settled  []string
	remsh    string // names the remote shell
	rsh      string // set to "rsh": the remote shell is called the way rsh is
	hostfile string // names the host file
}

// launchers is the table of docs/mpi.md. In all of them, options on the command line override
// variables. A launcher that was built with PBS's task manager (TM) uses it and needs no remote
// shell.
var launchers = []launcher{
	{ // Open MPI 4 (orte/mca/plm/rsh)
		settled: []string{"OMPI_MCA_plm_rsh_agent", "OMPI_MCA_pls_rsh_agent", "OMPI_MCA_orte_rsh_agent",
			"OMPI_MCA_plm"},
		remsh: "OMPI_MCA_plm_rsh_agent",
	},
	{ // Open MPI 4 without TM does not read PBS_NODEFILE. A build with TM does not read this variable.
		settled:  []string{"OMPI_MCA_orte_default_hostfile"},
		hostfile: "OMPI_MCA_orte_default_hostfile",
	},
	{ // PRRTE of Open MPI 5 reads PBS_NODEFILE with or without TM (prte/mca/ras/pbs).
		settled: []string{"PRTE_MCA_plm_ssh_agent", "PRTE_MCA_plm_rsh_agent", "PRTE_MCA_plm",
			"PRTE_MCA_prte_default_hostfile"},
		remsh: "PRTE_MCA_plm_ssh_agent",
	},
	// Hydra of MPICH and MVAPICH, which reads PBS_NODEFILE. A Hydra with TM reads the agent
	// (HYDRA_LAUNCHER_EXEC) only if the launcher (HYDRA_LAUNCHER) is set.
	{
		settled: []string{"HYDRA_LAUNCHER", "HYDRA_BOOTSTRAP", "HYDRA_LAUNCHER_EXEC", "HYDRA_BOOTSTRAP_EXEC"},
		remsh:   "HYDRA_LAUNCHER_EXEC",
	},
	{ // Intel MPI
		settled: []string{"I_MPI_HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP_EXEC"},
		remsh:   "I_MPI_HYDRA_BOOTSTRAP_EXEC", rsh: "I_MPI_HYDRA_BOOTSTRAP",
	},
}

// variables returns the variables to set in an environment. It changes no variable that exists, and
// skips a family if the user has set one of its settled variables. A path of "" means none.
func variables(env map[string]string, remsh, hostfile string) map[string]string {
	set := map[string]string{}
	put := func(name, value string) {
		if name != "" && value != "" {
			set[name] = value
		}
	}
	for _, l := range launchers {
		settled := slices.ContainsFunc(l.settled, func(name string) bool { _, there := env[name]; return there })
		if settled {
			continue
		}
		put(l.hostfile, hostfile)
		put(l.remsh, remsh)
		if remsh != "" {
			put(l.rsh, "rsh")
		}
	}
	return set
}

// ExecjobLaunch sets the variables for the program of a job on several hosts. A failure only
// results in a note, because most programs do not need these variables.
func (h *hook) ExecjobLaunch(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	job := req.Job
	if !spans(job) {
		return &hostapi.Outcome{}, nil
	}
	out := &hostapi.Outcome{}
	file := ""
	if h.policy.MPI.Hostfile {
		var err error
		if file, err = writeHostfile(h.aux, job, req.Node); err != nil {
			h.log.WithField("job", job.ID).Warnf("host file: %v", err)
			out.Notes = []string{fmt.Sprintf("Open MPI was not told the job's hosts: %v", err)}
		}
	}
	if set := variables(req.Env, h.remsh, file); len(set) > 0 {
		out.SetEnv = set
	}
	return out, nil
}

// spans reports whether a job is on more than one host.
func spans(job *hostapi.Job) bool {
	if !strings.Contains(job.ExecVnode, "+") { // true of nearly all jobs
		return false
	}
	chunks, err := pbs.JobChunks(job.ExecVnode, job.ExecHost2)
	if err != nil || len(chunks) == 0 {
		return false // another hook reports that
	}
	for _, c := range chunks[1:] {
		if c.Host != chunks[0].Host {
			return true
		}
	}
	return false
}
