package main_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

// together lets a laboratory's hosts work together, with n1 as the one that begins jobs.
func together(h *labHost) string {
	ca := h.lab.path("ca")
	h.lab.do(exec.Command(filepath.Join(built, "hookhost"), "cert", "--dir", ca, h.name))
	return fmt.Sprintf("[sister]\nlisten = \":15020\"\nca = %q\ncert = %q\nkey = %q\nheads = "+
		"[\"n1\"]\nconnect_timeout = \"3s\"\nanswer_timeout = \"10s\"\nretry = \"1s\"\n"+eachSecond,
		ca+"/ca.crt", filepath.Join(ca, h.name+".crt"), filepath.Join(ca, h.name+".key"))
}

// compile compiles a program of testdata/mpi with each library.
func (l *lab) compile(name string) []library {
	l.t.Helper()
	source, err := filepath.Abs("../../testdata/mpi/" + name + ".c")
	must.NoError(l.t, err)
	list := []library{{name: "Open MPI", mpirun: "mpirun.openmpi", where: name + ".openmpi"},
		{name: "MPICH", mpirun: "mpiexec.mpich", where: name + ".mpich"}}
	for i := range list {
		_, kind, _ := strings.Cut(list[i].where, ".")
		list[i].where = l.path(list[i].where)
		l.do(exec.Command("mpicc."+kind, "-O1", "-o", list[i].where, source))
	}
	return list
}

// spreadJob is a job that `hookhost run --host` runs on all hosts of a laboratory.
type spreadJob struct {
	*labJob
	args           []string // of run
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

// spread makes a job, which the caller starts or runs.
func (l *lab) spread(id, selected string, command ...string) *spreadJob {
	j := &spreadJob{labJob: &labJob{l: l, id: id, user: labUser},
		args: []string{"run", "--job", id, "-u", labUser, "--report=json", "-l", "select=" + selected}}
	for _, h := range l.hosts {
		j.args = append(j.args, "--host", h.name)
	}
	j.args = append(append(j.args, "--"), command...)
	env := []string{"env", "-i", "PATH=/usr/bin:/bin", "HOME=" + l.path("home"), "SHELL=/bin/bash"}
	j.cmd = l.hosts[0].in(append(env, l.hosts[0].hookhost(j.args...)...)...)
	j.cmd.Dir = l.path("home")
	j.cmd.Stdout, j.cmd.Stderr = &j.stdout, &j.stderr
	return j
}

// ends waits for the job's end and fails unless run has that status.
func (j *spreadJob) ends(t *testing.T, status int) {
	t.Helper()
	j.cmd.Wait()
	if got := j.cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("status %d, want %d", got, status)
	}
	t.Logf("stdout:\n%s\nstderr:\n%s", j.stdout.Bytes(), j.stderr.Bytes())
}

// cput returns the cpu time of all hosts.
func (r usageReport) cput() (sum float64) {
	for _, h := range r.Hosts {
		if h.CPUTSeconds != nil {
			sum += *h.CPUTSeconds
		}
	}
	return sum
}

// lives reports whether a host has the job's cgroup.
func (j *labJob) lives(h *labHost) bool { return exists(h.node.memoryDir(j.id)) }

// nothingIsLeft waits until no host has anything of any job.
func (l *lab) nothingIsLeft(t *testing.T) {
	t.Helper()
	for _, h := range l.hosts {
		must.Eventually(t, "nothing is left on "+h.name, func() bool {
			list, err := h.in(h.hookhost("jobs", "--json")...).Output()
			files, _ := filepath.Glob(h.node.path("run/aux/*"))
			return err == nil && strings.Contains(string(list), `"jobs":[]`) && len(h.node.jobDirs())+len(files) == 0
		})
	}
}

// cut takes the host off the network; the function that it returns brings it back.
func (h *labHost) cut() (mend func()) {
	port := "p" + strings.TrimPrefix(h.name, "n")
	h.lab.hub.must("ip", "link", "set", port, "down")
	return func() { h.lab.hub.must("ip", "link", "set", port, "up") }
}

// killDaemon ends the host's daemon without a word.
func (h *labHost) killDaemon() {
	h.lab.t.Helper()
	pids := processesNamed(h.hookhost("serve")...)
	if len(pids) != 1 {
		h.lab.t.Fatalf("daemons of %s: %v", h.name, pids)
	}
	must.NoError(h.lab.t, syscall.Kill(pids[0], syscall.SIGKILL))
	must.Eventually(h.lab.t, h.name+"'s daemon is gone",
		func() bool { return len(processesNamed(h.hookhost("serve")...)) == 0 })
}

// gate is a file that programs of jobs wait for to be gone.
func (l *lab) gate(t *testing.T) (file string, open func()) {
	l.gates++
	file = l.path(fmt.Sprintf("gate-%d", l.gates))
	must.NoError(t, os.WriteFile(file, nil, 0o644))
	open = func() { os.Remove(file) }
	t.Cleanup(open)
	return file, open
}

// A user with several hosts runs jobs on them, and one of the hosts fails.
func TestJobOverHostsEndsCleanlyWhicheverFails(t *testing.T) {
	l := newLab(t, 3, together)
	first, second := l.hosts[0], l.hosts[1]
	burns, wheres := l.compile("burn"), l.compile("where")
	for i, lib := range burns {
		t.Run(lib.name, func(t *testing.T) {
			const seconds = 5
			j := l.spread(fmt.Sprintf("%d.n1", 10+i), "3:ncpus=1:mem=100mb", lib.mpirun, lib.where,
				strconv.Itoa(seconds))
			must.NoError(t, j.cmd.Start())
			for _, h := range l.hosts {
				must.Eventually(t, "a rank is in the job on "+h.name,
					func() bool { return len(j.processes(h, filepath.Base(lib.where))) == 1 })
			}
			j.ends(t, 0)
			j.everywhere(t, j.stdout.String())
			ranks := 0.0
			for _, word := range strings.Fields(j.stdout.String()) {
				if text, ok := strings.CutPrefix(word, "cput="); ok {
					v, err := strconv.ParseFloat(text, 64)
					must.NoError(t, err)
					ranks += v
				}
			}
			r := reportOfHosts(t, j.stderr.String())
			if len(r.Hosts) != 3 || len(r.Missing) > 0 {
				t.Errorf("report of %d hosts, missing %v", len(r.Hosts), r.Missing)
			}
			t.Logf("cpu time: %.3f s in the report, %.3f s by the ranks", r.cput(), ranks)
			if ranks < 3*seconds || math.Abs(r.cput()/ranks-1) > 0.05 {
				t.Errorf("cpu time: %.3f s in the report, %.3f s by the ranks", r.cput(), ranks)
			}
			for name, h := range r.Hosts {
				if h.Series == nil || len(h.Series.Times) < seconds {
					t.Errorf("series of %s: %+v", name, h.Series)
				} else if sum := h.Series.integral("cpu"); math.Abs(sum-*h.CPUTSeconds) > 1.5 {
					t.Errorf("series of %s: %.2f cpu seconds, want %.2f", name, sum, *h.CPUTSeconds)
				}
			}
			l.nothingIsLeft(t)
		})
	}
	t.Run("a rank needs too much memory", func(t *testing.T) {
		j := l.spread("20.n1", "3:ncpus=1:mem=100mb", burns[0].mpirun, burns[0].where, "0", "1", "300")
		must.NoError(t, j.cmd.Start())
		j.cmd.Wait()
		t.Logf("%s\n%s", j.stdout.Bytes(), j.stderr.Bytes())
		r := reportOfHosts(t, j.stderr.String())
		for name, h := range r.Hosts {
			if killed := h.OOMKills != nil && *h.OOMKills > 0; killed != (name == "n2") {
				t.Errorf("%s: out of memory %v", name, killed)
			}
		}
		if j.cmd.ProcessState.ExitCode() == 0 || len(r.Hosts) != 3 ||
			!strings.Contains(r.DiagMessages["n2"], "mem limit exceeded") || len(r.DiagMessages) != 1 {
			t.Errorf("status %d, %+v", j.cmd.ProcessState.ExitCode(), r)
		}
		if !strings.Contains(j.stderr.String(), "\nn2: ") {
			t.Error("the job's standard error does not tell of n2")
		}
		l.nothingIsLeft(t)
	})
	t.Run("walltime", func(t *testing.T) {
		told := l.path("home/told")
		j := l.spread("30.n1", "3:ncpus=1:mem=100mb,walltime=5,walltime_signal=USR1@3,kill_delay=30", "bash", "-c",
			`trap : TERM USR1; "$@"`, "-",
			filepath.Join(built, "hookhost-remsh"), "n2", `trap 'echo warned >>`+told+`' USR1
trap 'sleep 1; echo saved >>`+told+`; exit 7' TERM
while :; do sleep 0.1; done`)
		must.NoError(t, j.cmd.Start())
		j.ends(t, 7)
		text, err := os.ReadFile(told)
		if lines := strings.Fields(string(text)); err != nil || len(lines) < 2 || lines[0] != "warned" ||
			lines[len(lines)-1] != "saved" {
			t.Errorf("the program on n2 wrote %q, %v; want that it was warned, and that it could save", text, err)
		}
		l.nothingIsLeft(t)
	})
	t.Run("a host rejects", func(t *testing.T) {
		j := l.spread("21.n1", "1:ncpus=1:mem=50mb+1:ncpus=1:mem=1000tb+1:ncpus=1:mem=50mb", "true")
		must.NoError(t, j.cmd.Start())
		j.ends(t, 125)
		if !strings.Contains(j.stderr.String(), "n2: execjob_begin request rejected by 'cgroup': mem requested") {
			t.Error("it does not say who rejected it and why")
		}
		l.nothingIsLeft(t)
	})
	t.Run("attach", func(t *testing.T) { l.attachesThere(t) })
	t.Run("a daemon is killed in mid-job", func(t *testing.T) {
		file, open := l.gate(t)
		j := l.spread("30.n1", "3:ncpus=1:mem=100mb", wheres[0].mpirun, wheres[0].where, file, "0")
		must.NoError(t, j.cmd.Start())
		must.Eventually(t, "a rank is in the job on n2",
			func() bool { return len(j.processes(second, "where.openmpi")) == 1 })
		second.killDaemon()
		other := l.spread("31.n1", "3:ncpus=1:mem=50mb", "true")
		must.NoError(t, other.cmd.Start())
		other.ends(t, 125)
		if !strings.Contains(other.stderr.String(), "n2: ") ||
			!strings.Contains(other.stderr.String(), "connection refused") {
			t.Error("it does not say that n2 could not be reached")
		}
		second.serve()
		if len(j.processes(second, "where.openmpi")) != 1 {
			t.Error("the rank on n2 is gone")
		}
		open()
		j.ends(t, 0)
		if r := reportOfHosts(t, j.stderr.String()); len(r.Hosts) != 3 || len(r.Missing) > 0 ||
			r.Hosts["n2"].CPUTSeconds == nil {
			t.Errorf("%+v", r)
		}
		l.nothingIsLeft(t)
	})
	t.Run("a host is cut off when the job begins", func(t *testing.T) {
		mend := second.cut()
		defer mend()
		j := l.spread("40.n1", "3:ncpus=1:mem=50mb", "true")
		began := time.Now()
		must.NoError(t, j.cmd.Start())
		j.ends(t, 125)
		t.Logf("rejected after %v", time.Since(began))
		if !strings.Contains(j.stderr.String(), "n2: ") {
			t.Error("it does not say that n2 could not be reached")
		}
		for _, h := range []*labHost{first, l.hosts[2]} {
			must.Eventually(t, "nothing is left on "+h.name, func() bool { return !j.lives(h) })
		}
		mend()
		l.nothingIsLeft(t)
	})
	t.Run("a host is cut off while the job runs, and when it ends", func(t *testing.T) {
		file, open := l.gate(t)
		j := l.spread("50.n1", "3:ncpus=1:mem=50mb", "sh", "-c", filepath.Join(built, "hookhost-remsh")+
			" n2 sleep 1000 & while test -e "+file+"; do sleep 0.1; done")
		must.NoError(t, j.cmd.Start())
		must.Eventually(t, "the job is on n2", func() bool { return len(j.processes(second, "sleep")) == 1 })
		mend := second.cut()
		report := func() usageReport {
			return reportOfHosts(t, first.run(t, first.report(j.id, "--format=json")).stdout)
		}
		if r := report(); r.Missing["n2"] == "" || len(r.Missing) != 1 {
			t.Errorf("cut off: missing %v", r.Missing)
		}
		mend()
		must.Eventually(t, "n2 tells again",
			func() bool { r := report(); return len(r.Missing) == 0 && len(r.Hosts) == 3 })
		if len(j.processes(second, "sleep")) != 1 {
			t.Error("the job on n2 is gone")
		}
		mend = second.cut()
		defer mend()
		open()
		j.ends(t, 0)
		if r := reportOfHosts(t, j.stderr.String()); r.Missing["n2"] == "" || len(r.Missing) != 1 {
			t.Errorf("at its end: missing %v", r.Missing)
		}
		if !j.lives(second) || j.lives(first) || j.lives(l.hosts[2]) {
			t.Errorf("the job is on n1: %v, n2: %v, n3: %v", j.lives(first), j.lives(second), j.lives(l.hosts[2]))
		}
		mend()
		l.nothingIsLeft(t)
	})
	t.Run("the first host's daemon is killed in mid-job", func(t *testing.T) {
		file, open := l.gate(t)
		j := l.spread("55.n1", "3:ncpus=1:mem=50mb", "sh", "-c", "while test -e "+file+"; do sleep 0.1; done")
		must.NoError(t, j.cmd.Start())
		must.Eventually(t, "the job runs", func() bool { return len(j.processes(first, "sleep")) > 0 })
		first.killDaemon()
		open()
		j.ends(t, 0) // by run itself
		if r := reportOfHosts(t, j.stderr.String()); len(r.Hosts) != 3 || len(r.Missing) > 0 {
			t.Errorf("%+v", r)
		}
		for _, h := range l.hosts {
			if j.lives(h) {
				t.Errorf("the job is left on %s", h.name)
			}
		}
		first.serve()
		l.nothingIsLeft(t)
	})
	t.Run("the first host's daemon and run are killed", func(t *testing.T) {
		file, _ := l.gate(t)
		j := l.spread("60.n1", "3:ncpus=1:mem=100mb", wheres[0].mpirun, wheres[0].where, file, "0")
		must.NoError(t, j.cmd.Start())
		for _, h := range l.hosts {
			must.Eventually(t, "a rank is in the job on "+h.name,
				func() bool { return len(j.processes(h, "where.openmpi")) == 1 })
		}
		run := processesNamed(first.hookhost(j.args...)...)
		if len(run) != 1 {
			t.Fatalf("run: %v", run)
		}
		first.killDaemon()
		must.NoError(t, syscall.Kill(run[0], syscall.SIGKILL))
		must.Eventually(t, "run is gone", func() bool { return len(processesNamed(first.hookhost(j.args...)...)) == 0 })
		if !j.lives(second) {
			t.Error("n2 has ended a job of which its head has said nothing")
		}
		first.serve()
		l.nothingIsLeft(t)
		j.cmd.Wait() // not earlier: the job's programs have its output
	})
}

// A mistake in the hosts is said before anything of the job is there.
func TestRunHostsRefused(t *testing.T) {
	n := newNode(t, "[host]\nnode = \"n1\"")
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--host", "n2", "--host", "n1", "-l", "select=2:ncpus=1"}, 125,
			"run: --host n2: the first host has to be this one, which is n1"},
		{[]string{"--host", "n1,n2"}, 2, "run: --host n2: it gets none of 1 chunk"},
		{[]string{"--host", "n1,n1.cluster", "-l", "select=2:ncpus=1"}, 2, "it is there already, as n1"},
		{[]string{"--host", "n1,n2", "-l", "select=2:ncpus=1"}, 125, "docs/sisters.md"},
		{[]string{"--host", "n1", "-l", "ncpus=0"}, 0, ""}, // one host is no other job than without
	} {
		r := n.hookhost(append(append([]string{"run", "--report=none"}, tt.args...), "--", "true")...)
		if r.status != tt.status || !strings.Contains(r.stderr, tt.want) {
			t.Errorf("%q: status %d, %q", tt.args, r.status, r.stderr)
		}
	}
	ca := n.path("ca")
	if r := n.hookhost("cert", "--dir", ca, "n1"); r.status != 0 {
		t.Fatalf("cert: %+v", r)
	}
	n = newNode(t, "[host]\nnode = \"n1\"", "[sister]",
		fmt.Sprintf("ca = %q\ncert = %q\nkey = %q", ca+"/ca.crt", ca+"/n1.crt", ca+"/n1.key"))
	r := n.hookhost("run", "--host", "n1,n2", "-l", "select=2:ncpus=1", "--", "true")
	if r.status != 125 || !strings.Contains(r.stderr, ": n2: call host: ") { // the daemon here was started for it
		t.Errorf("without a daemon there: %+v", r)
	}
}

// attachesThere attaches processes of another host, there and from the first host; what must not
// be attached is refused, logged and counted.
func (l *lab) attachesThere(t *testing.T) {
	first, second := l.hosts[0], l.hosts[1]
	file, open := l.gate(t)
	j := l.spread("70.n1", "3:ncpus=1:mem=50mb", "sh", "-c", "while test -e "+file+"; do sleep 0.1; done")
	must.NoError(t, j.cmd.Start())
	must.Eventually(t, "the job runs", func() bool { return len(j.processes(first, "sleep")) > 0 })
	hookhost := filepath.Join(built, "hookhost")
	// start starts a program of a user's on n2 and returns its number there.
	start := func(user string, env ...string) string {
		cmd := second.as(user, append(append([]string{"env"}, env...), "sh", "-c", "echo $$; exec sleep 1000")...)
		stdout, err := cmd.StdoutPipe()
		must.NoError(t, err, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return newLines(stdout).next(t)
	}
	attach := func(h *labHost, user string, args ...string) result {
		return h.run(t, h.as(user, append([]string{hookhost, "attach", "-j", j.id}, args...)...))
	}
	if r := attach(second, labUser, "-p", start(labUser)); r.status != 0 {
		t.Errorf("on n2: %+v", r)
	}
	if r := attach(first, labUser, "-h", "n2", "-p", start(labUser, "PBS_JOBID="+j.id)); r.status != 0 {
		t.Errorf("by way of n1: %+v", r)
	}
	if in := j.processes(second, "sleep"); len(in) != 2 {
		t.Errorf("in the job on n2: %v", in)
	}
	client, err := api.Dial(second.node.path("run/s"))
	must.NoError(t, err)
	defer client.Close()
	refused := func() map[string]int64 {
		info, err := client.Node(t.Context())
		must.NoError(t, err)
		return info.Refused
	}
	before := refused()
	for _, tt := range []struct {
		name, user, pid, want string
	}{
		{"a process that nothing says to be the job's", labUser, start(labUser), "n2: attach pid"},
		{"somebody else's", labUser, start(labOther, "PBS_JOBID="+j.id), "n2: attach pid"},
		{"one that is not there", labUser, "4000000", "n2: attach pid 4000000: no such process"},
	} {
		if r := attach(first, tt.user, "-h", "n2", "-p", tt.pid); r.status != 1 ||
			!strings.Contains(r.stderr, "tm_attach: TM_E") || !strings.Contains(r.stderr, tt.want) {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
	if r := attach(first, labOther, "-h", "n2", "-p", start(labOther)); r.status != 1 ||
		!strings.Contains(r.stderr, "TM_ENOTFOUND") {
		t.Errorf("into another's job: %+v", r)
	}
	if r := attach(first, labUser, "-h", "n9", "-p", "2"); r.status != 1 {
		t.Errorf("on a host that is none of the job's: %+v", r)
	}
	after := refused()
	if owner, none := after["TM_EOWNER"]-before["TM_EOWNER"], after["TM_ENOPROC"]-before["TM_ENOPROC"]; owner != 2 ||
		none != 1 {
		t.Errorf("n2 has counted %d and %d refusals, want 2 and 1", owner, none)
	}
	if log, _ := os.ReadFile(l.path("n2.hookhost-1.log")); !strings.Contains(string(log), `peer="host n1"`) ||
		!strings.Contains(string(log), "kind=TM_ENOPROC") {
		t.Error("n2's log does not tell of them")
	}
	if in := j.processes(second, ""); len(in) != 2 {
		t.Errorf("in the job on n2: %v", in)
	}
	open()
	j.ends(t, 0)
	l.nothingIsLeft(t)
}
