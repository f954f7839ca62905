package mom

import (
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// jobEnv returns the variables that MoM sets for a job on its first host. dir is where the job
// starts, env the environment of its submitter.
func jobEnv(job *hostapi.Job, node, dir string, env map[string]string) (map[string]string, error) {
	chunks, err := pbs.Hostfile(job.ExecVnode, job.ExecHost2, job.Schedselect, node)
	if err != nil {
		return nil, err
	}
	threads := strconv.Itoa(chunks[0].Threads)
	set := map[string]string{
		"ENVIRONMENT":     "BATCH",
		"PBS_ENVIRONMENT": "PBS_BATCH",
		"PBS_JOBID":       job.ID,
		"PBS_NODENUM":     "0",
		"PBS_TASKNUM":     "1",
		"PBS_JOBDIR":      dir,
		"PBS_O_WORKDIR":   dir,
		"PBS_O_HOST":      node,
		"PBS_O_SYSTEM":    "Linux",
		"NCPUS":           threads,
		"OMP_NUM_THREADS": threads,
	}
	for name, value := range map[string]string{
		"PBS_JOBNAME": job.Name, "PBS_QUEUE": job.Queue, "PBS_O_QUEUE": job.Queue, "PBS_ACCOUNT": job.Account,
	} {
		if value != "" {
			set[name] = value
		}
	}
	if array, index, ok := subjob(job.ID); ok {
		set["PBS_ARRAY_ID"], set["PBS_ARRAY_INDEX"] = array, index
	}
	for _, name := range []string{"HOME", "LANG", "LOGNAME", "MAIL", "PATH", "SHELL", "TZ"} {
		if value, ok := env[name]; ok {
			set["PBS_O_"+name] = value
		}
	}
	return set, nil
}

// subjob splits the id of an array's subjob: 95[1].server is number 1 of 95[].server.
func subjob(id string) (array, index string, ok bool) {
	number, rest, ok := strings.Cut(id, "[")
	if !ok {
		return "", "", false
	}
	index, server, _ := strings.Cut(rest, "]")
	return number + "[]" + server, index, index != ""
}
