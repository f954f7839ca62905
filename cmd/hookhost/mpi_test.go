package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

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
type library struct {
	name, mpirun, where string
	tree                string // variable that makes it start hosts from hosts; "" for none
}

// libraries compiles the program that tells where its ranks are.
func (l *lab) libraries() []library {
	list := l.compile("where")
	list[0].tree = "OMPI_MCA_routed_radix=1"
	return list
}

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

// hold is a program with a rank on each host that stays until release.
type hold struct {
	cmd     *exec.Cmd
	file    string
	stdout  bytes.Buffer
	stderr  bytes.Buffer
	release func()
}

func (j *labJob) hold(t *testing.T, lib library, status string) *hold {
	t.Helper()
	h := &hold{file: j.l.path("hold")}
	must.NoError(t, os.WriteFile(h.file, nil, 0o644))
	h.cmd = j.command(nil, lib.mpirun, lib.where, h.file, status)
	h.cmd.Stdout, h.cmd.Stderr = &h.stdout, &h.stderr
	must.NoError(t, h.cmd.Start())
	h.release = func() { os.Remove(h.file) }
	t.Cleanup(h.release)
	name := filepath.Base(lib.where)
	for _, host := range j.l.hosts {
		must.Eventually(t, "a rank is in the job on "+host.name,
			func() bool { return len(j.processes(host, name)) == 1 })
	}
	return h
}

// A user who knows nothing of hookhost calls mpirun in a job.
func TestMPIRanksLandInTheJob(t *testing.T) {
	// A rank that is outside is to stay there, however long it takes.
	l := newLab(t, 3, func(*labHost) string { return "[mpi]\nstrays = \"off\"\n" })
	libraries := l.libraries()
	j := l.begin(t, "77.lab", labUser, labUID)
	first := l.hosts[0]
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			t.Run("every rank is in the job", func(t *testing.T) {
				r := first.run(t, j.command(nil, lib.mpirun, lib.where))
				if r.status != 0 {
					t.Errorf("status %d", r.status)
				}
				j.everywhere(t, r.stdout)
			})
			if lib.tree != "" {
				t.Run("hosts that start hosts", func(t *testing.T) {
					r := first.run(t, j.command([]string{lib.tree}, lib.mpirun, lib.where))
					if r.status != 0 {
						t.Errorf("status %d", r.status)
					}
					j.everywhere(t, r.stdout)
				})
			}
			t.Run("seen from outside, and the exit status", func(t *testing.T) {
				h := j.hold(t, lib, "7")
				h.release()
				h.cmd.Wait()
				if status := h.cmd.ProcessState.ExitCode(); status != 7 {
					t.Errorf("status %d, want the ranks' 7\n%s%s", status, h.stdout.Bytes(), h.stderr.Bytes())
				}
			})
			t.Run("nothing is left when mpirun is killed", func(t *testing.T) {
				h := j.hold(t, lib, "0")
				mpirun := childrenOf(h.cmd.Process.Pid)
				if len(mpirun) != 1 {
					t.Fatalf("children of nsenter: %v", mpirun)
				}
				must.NoError(t, syscall.Kill(mpirun[0], syscall.SIGKILL))
				h.cmd.Wait()
				for _, host := range l.hosts {
					must.Eventually(t, "nothing of the job is left on "+host.name,
						func() bool { return len(j.processes(host, "")) == 0 })
				}
			})
			// And what a rank outside looks like to these tests.
			t.Run("what the user chose instead holds", func(t *testing.T) {
				r := first.run(t, j.command([]string{"OMPI_MCA_plm_rsh_agent=ssh", "HYDRA_LAUNCHER_EXEC=/usr/bin/ssh"},
					lib.mpirun, lib.where))
				for n, rank := range ranks(t, r.stdout, len(l.hosts)) {
					if in := path.Base(cgroupOf(rank.cgroups, "memory")) == j.id; in != (rank.host == first.name) {
						t.Errorf("rank %d on %s: in the job: %v", n, rank.host, in)
					}
				}
			})
		})
	}
	t.Run("attach", func(t *testing.T) { l.attachRefuses(t, j) })
	t.Run("the end", func(t *testing.T) {
		h := j.hold(t, libraries[1], "0")
		for _, host := range l.hosts {
			for _, event := range []string{"execjob_epilogue", "execjob_end"} {
				if out, err := j.event(host, event, nil); err != nil {
					t.Errorf("%s on %s: %v\n%s", event, host.name, err, out)
				}
			}
		}
		h.cmd.Wait()
		files, _ := filepath.Glob(first.node.path("run/aux/*"))
		if len(files) > 0 {
			t.Errorf("files of the job are left: %q", files)
		}
		for _, host := range l.hosts {
			if left := host.node.jobDirs(); len(left) > 0 {
				t.Errorf("left on %s: %q", host.name, left)
			}
		}
	})
}

// attachRefuses tries what must not work, on a sister.
func (l *lab) attachRefuses(t *testing.T, j *labJob) {
	other := l.begin(t, "78.lab", labOther, otherID)
	sister := l.hosts[1]
	hookhost := filepath.Join(built, "hookhost")
	// A process tells its pid as its host counts, and waits for the end of its input.
	start := func(user string) (pid string, end func()) {
		t.Helper()
		cmd := sister.as(user, "sh", "-c", "echo $$; read x; exit 0")
		stdin, err := cmd.StdinPipe()
		must.NoError(t, err)
		stdout, err := cmd.StdoutPipe()
		must.NoError(t, err, cmd.Start())
		pid = newLines(stdout).next(t)
		end = func() {
			stdin.Close()
			io.Copy(io.Discard, stdout)
			cmd.Wait()
		}
		t.Cleanup(end)
		return pid, end
	}
	mine, _ := start(labUser)
	theirs, _ := start(labOther)
	stale, end := start(labUser)
	end()
	for _, tt := range []struct {
		name, user, job, pid, want string
	}{
		{"another's process", labUser, j.id, theirs, "TM_EOWNER"},
		{"to another's job", labUser, other.id, mine, "TM_ENOTFOUND"},
		{"another's process, to another's job", labUser, other.id, theirs, "TM_EOWNER"},
		{"of a process that is gone", labUser, j.id, stale, "TM_ENOPROC"},
		{"root, of a process of somebody else", "", j.id, theirs, "TM_EOWNER"},
	} {
		args := []string{hookhost, "attach", "--socket", sister.node.path("run/s"), "-j", tt.job, "-p", tt.pid}
		cmd := sister.in(args...)
		if tt.user != "" {
			cmd = sister.as(tt.user, args...)
		}
		if r := sister.run(t, cmd); r.status != 1 || !strings.Contains(r.stderr, "tm_attach: "+tt.want) {
			t.Errorf("%s: status %d, %q, want %s", tt.name, r.status, r.stderr, tt.want)
		}
	}
	for _, job := range []*labJob{j, other} {
		if in := job.processes(sister, ""); len(in) > 0 {
			t.Errorf("in job %s: %v", job.id, in)
		}
	}
	// The way from host to host: nothing runs that the job does not take in.
	cmd := l.hosts[0].as(labUser, "env", "PBS_JOBID="+other.id, filepath.Join(built, "hookhost-remsh"), "n2",
		"echo ran")
	if r := sister.run(t, cmd); r.status != 255 || r.stdout != "" ||
		!strings.Contains(r.stderr, "hookhost: remsh n2: tm_attach: TM_ENOTFOUND") {
		t.Errorf("remsh into another's job: %+v", r)
	}
	cmd = l.hosts[0].as(labUser, "env", "PBS_JOBID="+j.id, filepath.Join(built, "hookhost-remsh"), "n9", "echo ran")
	if r := sister.run(t, cmd); r.status != 255 || r.stdout != "" {
		t.Errorf("remsh to a host that is none: %+v", r)
	}
	for _, host := range l.hosts {
		other.event(host, "execjob_end", nil)
	}
}
