package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// labJob is a job on all hosts of a laboratory, begun on each by its own event, as MoMs do.
type labJob struct {
	l        *lab
	id, user string
	env      []string // of its program: what PBS sets and what hooks said at launch
}

// begin begins a job and launches its program on the first host, which the caller starts.
func (l *lab) begin(t *testing.T, id, user string, uid int) *labJob {
	t.Helper()
	j := &labJob{l: l, id: id, user: user}
	t.Cleanup(func() { // also when the test has ended it: that is no error
		for _, h := range l.hosts {
			j.event(h, "execjob_end", nil)
		}
	})
	for _, h := range l.hosts {
		for _, event := range []string{"execjob_begin", "execjob_prologue"} {
			if out, err := j.event(h, event, nil); err != nil {
				t.Fatalf("%s on %s: %v\n%s", event, h.name, err, out)
			}
		}
	}
	nodefile := l.path("nodefile." + id)
	var lines string
	for _, h := range l.hosts {
		lines += h.name + "\n"
	}
	must.NoError(t, os.WriteFile(nodefile, []byte(lines), 0o644))
	env := map[string]string{"PATH": "/usr/bin:/bin", "HOME": l.path("home"), "USER": user, "LOGNAME": user,
		"SHELL": "/bin/bash", "PBS_JOBID": id,
		"PBS_ENVIRONMENT": "PBS_BATCH", "PBS_NODEFILE": nodefile, "PBS_O_WORKDIR": l.path("home"),
		"HOOKHOST_SOCKET": l.hosts[0].node.path("run/s")}
	out, err := j.event(l.hosts[0], "execjob_launch", env)
	if err != nil {
		t.Fatalf("launch: %v\n%s", err, out)
	}
	var verdict struct {
		SetEnv map[string]string `json:"set_env"`
	}
	must.NoError(t, json.Unmarshal(out, &verdict))
	for name, value := range verdict.SetEnv {
		env[name] = value
	}
	for name, value := range env {
		j.env = append(j.env, name+"="+value)
	}
	slices.Sort(j.env)
	return j
}

// event sends an event of the job to a host's daemon.
func (j *labJob) event(h *labHost, name string, env map[string]string) ([]byte, error) {
	var chunks []string
	for _, h := range j.l.hosts {
		chunks = append(chunks, "("+h.name+":ncpus=1:mem=307200kb)")
	}
	uid := map[string]int{labUser: labUID, labOther: otherID}[j.user]
	req := map[string]any{"event": name, "node": h.name, "job": map[string]any{
		"id": j.id, "owner": map[string]any{"user": j.user, "uid": uid, "gid": uid},
		"exec_vnode":  strings.Join(chunks, "+"),
		"schedselect": fmt.Sprintf("%d:ncpus=1:mem=300mb", len(j.l.hosts)), "in_ms_mom": h == j.l.hosts[0]}}
	if env != nil {
		req["progname"], req["env"] = "/bin/sh", env
	}
	b, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	cmd := h.in(h.hookhost("event", name)...)
	cmd.Stdin = bytes.NewReader(b)
	return cmd.Output()
}

// command is a command of the job's, in the job on the first host; more comes to its environment.
func (j *labJob) command(more []string, args ...string) *exec.Cmd {
	attach := []string{filepath.Join(built, "hookhost"), "attach", "-j", j.id, "--", "env", "-i"}
	return j.l.hosts[0].as(j.user, slices.Concat(attach, j.env, more, args)...)
}

// processes returns the pids in the job's cgroup on a host, as this test sees them, of programs of
// that name.
func (j *labJob) processes(h *labHost, name string) []int {
	b, _ := os.ReadFile(filepath.Join(h.node.memoryDir(j.id), "cgroup.procs"))
	var pids []int
	for _, f := range strings.Fields(string(b)) {
		pid, _ := strconv.Atoi(f)
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil && (name == "" || strings.TrimSpace(string(comm)) == name) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// library is an MPI library as its users use it.
type library struct{ name, mpirun, where string }

// rank is a line of the program.
type rank struct{ host, job, cgroups string }

// ranks reads the program's lines, which has a rank on each of so many hosts; a line of another
// kind is an error.
func ranks(t testing.TB, text string, hosts int) map[int]rank {
	t.Helper()
	all := map[int]rank{}
	for line := range strings.Lines(text) {
		f := map[string]string{}
		for _, word := range strings.Fields(line) {
			name, value, _ := strings.Cut(word, "=")
			f[name] = value
		}
		n, err := strconv.Atoi(f["rank"])
		if err != nil {
			t.Errorf("output: %q", line)
			continue
		}
		if f["size"] != strconv.Itoa(hosts) {
			t.Errorf("rank %d is in a world of %s", n, f["size"])
		}
		all[n] = rank{f["host"], f["job"], strings.ReplaceAll(f["cgroups"], ";", "\n")}
	}
	return all
}

// everywhere fails unless the program ran with a rank on each host, each in the job.
func (j *labJob) everywhere(t testing.TB, text string) {
	t.Helper()
	all := ranks(t, text, len(j.l.hosts))
	hosts := map[string]int{}
	for n, r := range all {
		dir := cgroupOf(r.cgroups, "memory")
		hosts[r.host]++
		if r.job != j.id || path.Base(dir) != j.id ||
			!strings.Contains(dir, "/"+j.l.host(r.host).node.prefix+".service/") {
			t.Errorf("rank %d on %s: job %s, in %s", n, r.host, r.job, dir)
		}
	}
	for _, h := range j.l.hosts {
		if hosts[h.name] != 1 {
			t.Errorf("%d ranks on %s of %d in all", hosts[h.name], h.name, len(all))
		}
	}
}

func (l *lab) host(name string) *labHost {
	for _, h := range l.hosts {
		if h.name == name {
			return h
		}
	}
	l.t.Fatalf("there is no host %q", name)
	return nil
}

// A job of `hookhost run` is on one host, where a launcher needs no remote shell.
func TestMPIRanksOfARunAreInItsJob(t *testing.T) {
	for _, name := range []string{"mpirun.openmpi", "mpiexec.mpich"} {
		t.Run(name, func(t *testing.T) {
			kind := strings.TrimPrefix(filepath.Ext(name), ".")
			for _, program := range []string{"/usr/bin/" + name, "/usr/bin/mpicc." + kind} {
				if !exists(program) {
					kernfstest.Skip(t, "needs %s: install %s", program, labPrograms[program])
				}
			}
			n := newNode(t)
			where := n.path("where")
			compiler := exec.Command("mpicc."+kind, "-o", where, "../../testdata/mpi/where.c")
			if out, err := compiler.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			r := n.hookhost("run", "--job", "7.mpi", "--report=none", "-l", "select=1:ncpus=2:mpiprocs=2:mem=200mb",
				"--", "env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", name, "-n", "2", where)
			all := ranks(t, r.stdout, 2)
			if r.status != 0 || len(all) != 2 {
				t.Errorf("status %d, %d ranks", r.status, len(all))
			}
			for i, rank := range all {
				if dir := cgroupOf(rank.cgroups, "memory"); rank.job != "7.mpi" || path.Base(dir) != "7.mpi" {
					t.Errorf("rank %d: job %s, in %s", i, rank.job, dir)
				}
			}
		})
	}
}
