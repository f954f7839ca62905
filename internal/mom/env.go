package mom

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// jobEnv returns the variables that MoM sets for a job on its only host. dir is where the job starts, env what its
// submitter had.
func jobEnv(job *hostapi.Job, node, dir string, env map[string]string) (map[string]string, error) {
	chunks, err := placed(job, node)
	if err != nil {
		return nil, err
	}
	threads := strconv.Itoa(chunks[0].threads)
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

// chunk is what PBS_NODEFILE and OpenMP have to know of a chunk.
type chunk struct {
	host      string
	threads   int // ompthreads, else ncpus, at least 1
	processes int // mpiprocs, else 1 for a chunk with cpus
}

// placed returns the job's chunks in order, at least one: hosts as exec_vnode tells, counts as schedselect does. A job
// without either is one chunk on this node.
func placed(job *hostapi.Job, node string) ([]chunk, error) {
	wanted, err := asked(job.Schedselect)
	if err != nil {
		return nil, err
	}
	if job.ExecVnode == "" {
		if len(wanted) == 0 {
			wanted = []map[string]string{nil}
		}
		return chunks(wanted, func(int) string { return node })
	}
	if _, err := pbs.ParseExecVnode(job.ExecVnode); err != nil {
		return nil, err
	}
	var hosts []string
	var got []map[string]string
	for group := range strings.SplitSeq(job.ExecVnode, ")+(") {
		vnodes, err := pbs.ParseExecVnode("(" + strings.Trim(group, "()") + ")")
		if err != nil {
			return nil, err
		}
		hosts, got = append(hosts, vnodes[0].Host), append(got, vnodes[0].Resources)
	}
	if len(wanted) == len(got) {
		got = wanted // what is not consumed, mpiprocs and ompthreads, is there alone
	}
	return chunks(got, func(i int) string { return hosts[i] })
}

// asked returns the resources of each chunk of a select specification.
func asked(spec string) ([]map[string]string, error) {
	if spec == "" {
		return nil, nil
	}
	parsed, err := pbs.ParseSelect(spec)
	var list []map[string]string
	for _, c := range parsed {
		list = append(list, slices.Repeat([]map[string]string{c.Resources}, c.Count)...)
	}
	return list, err
}

func chunks(resources []map[string]string, host func(i int) string) ([]chunk, error) {
	list := make([]chunk, len(resources))
	for i, r := range resources {
		var err error
		if list[i], err = newChunk(host(i), r); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func newChunk(host string, resources map[string]string) (chunk, error) {
	c := chunk{host: host}
	ncpus, err := count(resources, "ncpus", 1)
	if err == nil {
		c.threads, err = count(resources, "ompthreads", max(ncpus, 1))
	}
	if err == nil {
		c.processes, err = count(resources, "mpiprocs", min(ncpus, 1))
	}
	return c, err
}

func count(resources map[string]string, name string, absent int) (int, error) {
	value, ok := resources[name]
	if !ok {
		return absent, nil
	}
	n, err := strconv.ParseUint(value, 10, 20)
	if err != nil {
		return 0, fmt.Errorf("%s=%s: not a count", name, value)
	}
	return int(n), nil
}
