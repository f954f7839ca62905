package main

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/hostapi/hooktest"
	"github.com/hookhost/hookhost/internal/must"
)

const agentPath = "/bin/hookhost-remsh"

func TestVariablesOfEachLauncherAreSet(t *testing.T) {
	openmpi := map[string]string{"OMPI_MCA_plm_rsh_agent": agentPath}
	hosts := map[string]string{"OMPI_MCA_orte_default_hostfile": "/f"}
	prrte := map[string]string{"PRTE_MCA_plm_ssh_agent": agentPath}
	hydra := map[string]string{"HYDRA_LAUNCHER_EXEC": agentPath}
	intel := map[string]string{"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": agentPath}
	sum := func(sets ...map[string]string) map[string]string {
		all := map[string]string{}
		for _, s := range sets {
			maps.Copy(all, s)
		}
		return all
	}
	const f = "/f"
	tests := []struct {
		name     string
		user     string // a variable that is already set
		remsh    string
		hostfile string
		want     map[string]string
	}{
		{"nothing is settled", "PATH", agentPath, f, sum(openmpi, hosts, prrte, hydra, intel)},
		{"no remsh", "PATH", "", f, hosts},
		{"no host file", "PATH", agentPath, "", sum(openmpi, prrte, hydra, intel)},
		{"nothing to set", "PATH", "", "", sum()},
		{"another agent", "OMPI_MCA_plm_rsh_agent", agentPath, f, sum(hosts, prrte, hydra, intel)},
		{"another agent by an old name", "OMPI_MCA_orte_rsh_agent", agentPath, f, sum(hosts, prrte, hydra, intel)},
		{"another launcher of Open MPI", "OMPI_MCA_plm", agentPath, f, sum(hosts, prrte, hydra, intel)},
		{"another host file", "OMPI_MCA_orte_default_hostfile", agentPath, f, sum(openmpi, prrte, hydra, intel)},
		{"another agent of PRRTE", "PRTE_MCA_plm_rsh_agent", agentPath, f, sum(openmpi, hosts, hydra, intel)},
		{"another host file of PRRTE", "PRTE_MCA_prte_default_hostfile", agentPath, f,
			sum(openmpi, hosts, hydra, intel)},
		{"another launcher of Hydra", "HYDRA_LAUNCHER", agentPath, f, sum(openmpi, hosts, prrte, intel)},
		{"another launcher of Hydra by an old name", "HYDRA_BOOTSTRAP_EXEC", agentPath, f,
			sum(openmpi, hosts, prrte, intel)},
		{"another launcher of Intel MPI", "I_MPI_HYDRA_BOOTSTRAP", agentPath, f, sum(openmpi, hosts, prrte, hydra)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			must.Equal(t, "", tt.want, variables(map[string]string{tt.user: ""}, tt.remsh, tt.hostfile))
		})
	}
}

func TestSpansCountsHosts(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "(n1:ncpus=1)": false, "(n1:ncpus=1)+(n1:ncpus=1)": false, "(n1[0]:ncpus=1+n1[1]:ncpus=1)": false,
		"(n1:ncpus=1)+(n2:ncpus=1)": true, "(n1[0]:ncpus=1+n1[1]:ncpus=1)+(n2[0]:ncpus=1)": true, "(n1+(n2": false,
	} {
		if got := spans(&hostapi.Job{ExecVnode: text}); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// The test takes a job through its life as the host does. It checks the host file in between, and
// that nothing is left.
func TestThroughHostapi(t *testing.T) {
	aux := filepath.Join(t.TempDir(), "aux")
	setup := hostapi.SetupData{Config: []byte("{}"), Host: map[string]string{"aux_dir": aux, "remsh": agentPath}}
	h, err := hooktest.Try(t, newHook, setup)
	must.NoError(t, err)
	want := []hostapi.Event{hostapi.EventBegin, hostapi.EventLaunch, hostapi.EventAbort, hostapi.EventEnd,
		hostapi.EventStartup, hostapi.EventPeriodic}
	must.Equal(t, "events", want, h.Events())
	call := func(event hostapi.Event, job *hostapi.Job) *hostapi.Outcome {
		t.Helper()
		req := &hostapi.Request{Event: event, Node: "n1", Job: job}
		if event == hostapi.EventLaunch {
			req.Progname, req.Env = "/bin/sh", map[string]string{"PBS_NODEFILE": "/etc/shadow"}
		}
		out, err := h.Call(t.Context(), req)
		if err != nil || out.Reject {
			t.Fatalf("%s: %+v, %v", event, out, err)
		}
		return out
	}
	files := func() (names []string) {
		entries, _ := os.ReadDir(aux)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	job := &hostapi.Job{ID: "7[1].srv", ExecVnode: "(n1:ncpus=2)+(n2:ncpus=2)+(n1:ncpus=1)+(n3:ncpus=0)",
		Schedselect: "2:ncpus=2:mpiprocs=2+1:ncpus=1+1:ncpus=0"}
	single := &hostapi.Job{ID: "8.srv", ExecVnode: "(n1:ncpus=2)"}
	if out := call(hostapi.EventLaunch, single); len(out.SetEnv) > 0 || len(files()) > 0 {
		t.Errorf("a job on one host: %+v, %q", out, files())
	}
	for range 2 { // a launch for each task of TM
		out := call(hostapi.EventLaunch, job)
		file := out.SetEnv["OMPI_MCA_orte_default_hostfile"]
		text, err := os.ReadFile(file)
		if string(text) != "n1 slots=3\nn2 slots=2\n" || err != nil {
			t.Errorf("host file %s: %q, %v", file, text, err)
		}
		info, err := os.Stat(file)
		if err != nil || info.Mode() != 0o640 || len(files()) != 1 || hostapi.CheckJobID(files()[0]) == nil {
			t.Errorf("%v, %v, %q", info.Mode(), err, files())
		}
	}
	call(hostapi.EventEnd, single)
	for _, event := range []hostapi.Event{hostapi.EventEnd, hostapi.EventAbort} {
		call(hostapi.EventLaunch, job)
		call(event, job)
		call(event, job) // the event may be repeated
		if left := files(); len(left) > 0 {
			t.Errorf("%s left %q", event, left)
		}
	}
	call(hostapi.EventLaunch, job)
	for _, name := range []string{"openmpi.9.srv", ".hookhost-123.tmp", "9.srv"} {
		must.NoError(t, os.WriteFile(filepath.Join(aux, name), nil, 0o600))
	}
	if _, err := h.Call(t.Context(),
		&hostapi.Request{Event: hostapi.EventStartup, JobList: map[string]*hostapi.Job{job.ID: job}}); err != nil {
		t.Error(err)
	}
	must.Equal(t, "startup left", []string{"9.srv", "openmpi.7[1].srv"}, files())
	must.NoError(t, os.RemoveAll(aux))
	if err := os.WriteFile(aux, nil, 0o600); err != nil { // a file in place of the directory
		t.Fatal(err)
	}
	out := call(hostapi.EventLaunch, job)
	if len(out.Notes) != 1 || out.SetEnv["HYDRA_LAUNCHER_EXEC"] != agentPath ||
		out.SetEnv["OMPI_MCA_orte_default_hostfile"] != "" {
		t.Errorf("without a place for files: %+v", out)
	}
}

func TestTurnedOff(t *testing.T) {
	job := &hostapi.Job{ID: "7.srv", ExecVnode: "(n1:ncpus=2)+(n2:ncpus=2)"}
	for config, want := range map[string]int{`{"mpi":{"enabled":true,"hostfile":false,"remsh":true}}`: 5,
		`{"mpi":{"enabled":true,"hostfile":true,"remsh":false}}`: 1} {
		setup := hostapi.SetupData{Config: []byte(config),
			Host: map[string]string{"aux_dir": t.TempDir(), "remsh": agentPath}}
		h, err := hooktest.Try(t, newHook, setup)
		must.NoError(t, err)
		out, err := h.Call(t.Context(),
			&hostapi.Request{Event: hostapi.EventLaunch, Node: "n1", Job: job, Progname: "/bin/sh"})
		if err != nil || len(out.SetEnv) != want {
			t.Errorf("%s: %v, %v", config, out.SetEnv, err)
		}
	}
}
