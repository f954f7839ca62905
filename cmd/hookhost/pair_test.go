package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// A pair is two machines, n1 and n2: guests of the laboratory with a cable between them
// (lab/vm/pair). They have cgroup v2, systemd, Debian's sshd and MPI libraries, and hookhost as it
// is packaged. This test runs in n1. Beside TestMPIRanksLandInTheJob it is about what no namespace
// has: each host's own kernel, logind with a session for each ssh, and units.
type pair struct {
	t     *testing.T
	hosts []string
}

func newPair(t *testing.T) *pair {
	t.Helper()
	other := os.Getenv("HOOKHOST_PAIR")
	if other == "" {
		kernfstest.Elsewhere(t, "no guest of the laboratory that has another beside it")
	}
	p := &pair{t: t, hosts: []string{"n1", other}}
	for _, host := range p.hosts {
		p.answers(t, host)
	}
	return p
}

// on returns what a shell line of root's prints on a host, whatever its status, or that there was
// no answer.
func (p *pair) on(host, line string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	if host != p.hosts[0] {
		cmd = exec.CommandContext(ctx, "ssh", host, line)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.WaitDelay = &out, time.Second
	var exited *exec.ExitError
	// 255: ssh's own
	if err := cmd.Run(); err != nil && (!errors.As(err, &exited) || exited.ExitCode() == 255 || exited.ExitCode() < 0) {
		return "no answer: " + err.Error()
	}
	return strings.TrimSpace(out.String())
}

func (p *pair) answers(t *testing.T, host string) {
	t.Helper()
	must.Eventually(t, "the daemon of "+host+" answers",
		func() bool { return p.on(host, "hookhost jobs >&2 && echo yes") == "yes" })
}

// pairCgroup is the job's, on each host.
func pairCgroup(id string) string { return "/pbs_jobs.service/jobs/" + id }

// running counts the job's processes of a name on a host.
func (p *pair) running(host, id, name string) int {
	return strings.Count(p.on(host,
		fmt.Sprintf("for p in $(cat /sys/fs/cgroup%s/cgroup.procs); do grep -x %s /proc/$p/comm; done", pairCgroup(id),
			name)), name)
}

// pairJob is a job on both hosts.
type pairJob struct {
	p              *pair
	id             string
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

// start runs a program as a job with a chunk on each host, as its user would.
func (p *pair) start(t *testing.T, id string, program ...string) *pairJob {
	t.Helper()
	j := &pairJob{p: p, id: id}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	args := []string{"run", "-u", labUser, "--job", id, "--host", p.hosts[0], "--host", p.hosts[1], "-l",
		"select=2:ncpus=1:mem=100mb", "--report=json", "--"}
	j.cmd = exec.CommandContext(ctx, "hookhost", append(args, program...)...)
	j.cmd.Cancel = func() error { return j.cmd.Process.Signal(syscall.SIGTERM) } // and the job with it
	j.cmd.WaitDelay = time.Minute
	j.cmd.Dir, j.cmd.Stdout, j.cmd.Stderr = "/", &j.stdout, &j.stderr
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must.NoError(t, j.cmd.Start())
	return j
}

// wait waits for the job's end, looks that nothing is left of it, and returns its exit status and
// its report.
func (j *pairJob) wait(t *testing.T) (int, usageReport) {
	t.Helper()
	err := j.cmd.Wait()
	t.Logf("job %s: %v\nstdout: %s\nstderr: %s", j.id, err, j.stdout.Bytes(),
		bytes.ReplaceAll(j.stderr.Bytes(), []byte{0}, nil))
	for _, host := range j.p.hosts {
		left := ""
		defer func() { // for inTime, which may end this
			if left != "" {
				t.Logf("left on %s: %s", host, left)
			}
		}()
		must.Eventually(t, "nothing of the job is left on "+host, func() bool {
			left = j.p.on(host, "ls -d /sys/fs/cgroup/pbs_jobs.service/jobs/*/ /run/hookhost/aux/*; "+
				"pgrep -u "+labUser+" -a 'orted|prted|hydra|where|talk|python'; hookhost jobs | grep -w "+j.id)
			return left == ""
		})
	}
	rep := reportOfHosts(t, j.stderr.String())
	if len(rep.Hosts) != 2 {
		t.Fatalf("the report has %d hosts, want 2", len(rep.Hosts))
	}
	return j.cmd.ProcessState.ExitCode(), rep
}

// TestPairOfGuestsRunsMPIOfOneJob: MPI over two machines, with nothing that its user would have to
// know.
func TestPairOfGuestsRunsMPIOfOneJob(t *testing.T) {
	p := newPair(t)
	for i, lib := range []library{{name: "Open MPI", mpirun: "mpirun.openmpi", where: "/lab/mpi/%s.openmpi"},
		{name: "MPICH", mpirun: "mpiexec.mpich", where: "/lab/mpi/%s.mpich"}} {
		program := func(name string) string { return fmt.Sprintf(lib.where, name) }
		id := func(n int) string { return fmt.Sprintf("%d%d.pair", i+1, n) }
		t.Run(lib.name, func(t *testing.T) {
			t.Run("every rank is in the job",
				func(t *testing.T) { p.everyRank(t, id(1), lib.mpirun, program("where")) })
			t.Run("what ranks send", func(t *testing.T) {
				j := p.start(t, id(2), lib.mpirun, program("talk"))
				if status, _ := j.wait(t); status != 0 || strings.Count(j.stdout.String(), " bad=0\n") != 2 {
					t.Errorf("status %d, %q", status, j.stdout.Bytes())
				}
			})
			t.Run("out of memory on one host", func(t *testing.T) { p.outOfMemory(t, id(3), lib.mpirun) })
		})
	}
	t.Run("plain ssh", func(t *testing.T) { p.plainSSH(t, "31.pair") })
}

// everyRank looks at ranks from inside and from outside, and has the daemon of the second host
// killed meanwhile.
func (p *pair) everyRank(t *testing.T, id, mpirun, program string) {
	const hold = "/tmp/hold"
	name := program[strings.LastIndexByte(program, '/')+1:]
	first, other := p.hosts[0], p.hosts[1]
	for _, host := range p.hosts {
		p.on(host, "touch "+hold)
		defer p.on(host, "rm -f "+hold)
	}
	j := p.start(t, id, mpirun, program, hold, "7")
	for _, host := range p.hosts {
		must.Eventually(t, "a rank is in the job on "+host, func() bool { return p.running(host, id, name) == 1 })
	}
	p.on(other, "systemctl kill -s KILL hookhost")
	p.answers(t, other)
	if n := p.running(other, id, name); n != 1 {
		t.Errorf("%d ranks on %s when its daemon was killed", n, other)
	}
	for _, host := range p.hosts {
		p.on(host, "rm "+hold)
	}
	status, rep := j.wait(t)
	if status != 7 {
		t.Errorf("status %d, want the ranks' 7", status)
	}
	all := ranks(t, j.stdout.String(), 2)
	for n, r := range all {
		if dir := cgroupOf(r.cgroups, "memory"); r.job != id || dir != pairCgroup(id) || r.host != p.hosts[n] {
			t.Errorf("rank %d on %s: job %s, in %s", n, r.host, r.job, dir)
		}
	}
	if len(all) != 2 {
		t.Errorf("%d ranks", len(all))
	}
	sum := 0.0
	for _, host := range p.hosts {
		if u := rep.Hosts[host]; u.NCPUs != 1 || u.CPUTSeconds == nil || *u.CPUTSeconds <= 0 ||
			u.MemLimitBytes == nil || *u.MemLimitBytes != 100*mib {
			t.Errorf("%s in the report: %+v", host, u)
		} else {
			sum += *u.CPUTSeconds
		}
	}
	cput, _ := rep.ResourcesUsed["cput"].(string)
	if used := seconds(t, cput).Seconds(); used < sum-2 || used > sum+1 { // each host's is in whole seconds
		t.Errorf("cput=%s of both, whose parts are %.1f s together", cput, sum)
	}
	if rep.Hosts[first].Attached != 0 || rep.Hosts[other].Attached == 0 {
		t.Errorf("taken in on %s: %d, on %s: %d; want mpirun's daemon on the second", first, rep.Hosts[first].Attached,
			other, rep.Hosts[other].Attached)
	}
}

// outOfMemory has the rank of the second host need more than the job has there.
func (p *pair) outOfMemory(t *testing.T, id, mpirun string) {
	first, other := p.hosts[0], p.hosts[1]
	eat := fmt.Sprintf("import socket, time\nx = bytearray(300 << 20) if socket.gethostname() == %q else "+
		"None\ntime.sleep(600)", other)
	j := p.start(t, id, mpirun, "python3", "-c", eat)
	// The kernel kills mpirun's daemon there too, as all of the job. Open MPI 5 says that it has
	// lost it, and ends with 0.
	_, rep := j.wait(t)
	kills := func(host string) int64 {
		if n := rep.Hosts[host].OOMKills; n != nil {
			return *n
		}
		return -1
	}
	if kills(first) != 0 || kills(other) < 1 {
		t.Errorf("oom kills: %d on %s, %d on %s", kills(first), first, kills(other), other)
	}
	const exceeded = "Cgroup mem limit exceeded"
	if _, here := rep.DiagMessages[first]; here || !strings.HasPrefix(rep.DiagMessages[other], exceeded) {
		t.Errorf("diag messages: %v", rep.DiagMessages)
	}
	if told := j.stderr.String(); !strings.Contains(told, other+": "+exceeded) ||
		strings.Contains("\n"+told, "\n"+exceeded) {
		t.Errorf("the job was not told in a line of %s's", other)
	}
}

// plainSSH: a process that a job starts on its other host by ssh is taken in and ends with it. The
// user's own login there is left alone.
func (p *pair) plainSSH(t *testing.T, id string) {
	const hold = "/tmp/hold"
	other := p.hosts[1]
	p.on(p.hosts[0], "touch "+hold)
	defer p.on(p.hosts[0], "rm -f "+hold)
	where := func(seconds string) string {
		return p.on(other, "for p in $(pgrep -u "+labUser+" -f '^sleep "+seconds+"$'); do cat /proc/$p/cgroup; done")
	}
	login := exec.Command("setpriv", "--reuid", labUser, "--regid", labUser, "--init-groups", "--reset-env", "ssh",
		other, "sleep 4343")
	login.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must.NoError(t, login.Start())
	t.Cleanup(func() {
		login.Process.Kill()
		login.Wait()
	})
	j := p.start(t, id, "sh", "-c", "ssh "+other+" sleep 4242 & while [ -e "+hold+" ]; do sleep 1; done")
	must.Eventually(t, "a session has begun", func() bool { return strings.Contains(where("4343"), "/session-") })
	must.Eventually(t, "what the job started by ssh is in it",
		func() bool { return where("4242") == "0::"+pairCgroup(id) })
	p.on(p.hosts[0], "rm "+hold)
	if status, rep := j.wait(t); status != 0 || rep.Hosts[other].Attached == 0 {
		t.Errorf("status %d; taken in on %s: %d", status, other, rep.Hosts[other].Attached)
	}
	if left := where("4242"); left != "" {
		t.Errorf("it is left when the job has ended, in %s", left)
	}
	if session := where("4343"); !strings.Contains(session, "/session-") {
		t.Errorf("the user's session is in %q", session)
	}
}
