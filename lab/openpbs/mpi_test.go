//go:build openpbs

package openpbs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// twoHosts is what a job asks for that has a chunk on each node.
const twoHosts = "-l select=2:ncpus=1:mem=128mb -l place=scatter "

// shared is a directory that each node and every user sees. The directory goes with the test.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; strings.HasPrefix(filepath.Base(filepath.Dir(d)), "Test"); {
		d = filepath.Dir(d)
		must.NoError(t, os.Chmod(d, 0o755))
	}
	must.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

// witness is a program that prints NAME, its host and its cgroups as one line into a file.
func witness(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "witness")
	text := `#!/bin/sh
printf '%s %s %s\n' "$1" "$(hostname)" "$(tr '\n' ' ' </proc/self/cgroup)" >>` + dir + "/seen\n"
	must.NoError(t, os.WriteFile(file, []byte(text), 0o755))
	return file
}

// seen returns the lines that a witness printed: by its NAME and host, whether it was in the job.
func seen(t *testing.T, dir, id string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "seen"))
	must.NoError(t, err)
	in := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, " ")
		host, cgroups, _ := strings.Cut(rest, " ")
		in[name+" on "+host] = inJob(cgroups, id)
	}
	return in
}

// inJob reports whether a process with these cgroups is in the job where memory is limited. Memory
// is limited in v1's hierarchy of memory or in v2's.
func inJob(cgroups, id string) bool {
	v1 := strings.Contains(cgroups, ":memory:")
	for _, c := range strings.FieldsFunc(cgroups, func(r rune) bool { return r == ' ' || r == ';' || r == '\n' }) {
		if _, path, ok := strings.Cut(c, map[bool]string{true: ":memory:", false: "0::"}[v1]); ok {
			return strings.HasSuffix(path, "/"+id)
		}
	}
	return false
}

// stdout is what the job's program printed, once the job has finished.
func (j *job) stdout() string {
	j.t.Helper()
	home := as(j.t, "alice", nodes[0], "echo $HOME")
	return on(j.t, nodes[0], "cat "+home+"/STDIN.o"+j.short())
}

// stderr is what it printed on standard error.
func (j *job) stderr() string {
	j.t.Helper()
	home := as(j.t, "alice", nodes[0], "echo $HOME")
	return on(j.t, nodes[0], "cat "+home+"/STDIN.e"+j.short())
}

// idle waits until a user has no process on any node: what jobs leave behind would be one.
func idle(t *testing.T, user string) {
	t.Helper()
	for _, node := range nodes {
		var left string
		eventually(t, node+" has no process of "+user, 20*time.Second, func() bool {
			left, _ = output("root", node, "pgrep -u "+user+" -a | grep -v -e qsub -e 'pgrep'")
			return left == ""
		})
	}
}

func TestEachRankOfMPIIsInTheJobOfItsHost(t *testing.T) {
	needNodes(t, 2)
	source, err := filepath.Abs("../../testdata/mpi/where.c")
	must.NoError(t, err)
	for _, library := range []struct{ name, compiler, command string }{
		{"Open MPI", "mpicc.openmpi", "mpirun.openmpi"},
		{"MPICH", "mpicc.mpich", "mpiexec.mpich"},
	} {
		t.Run(library.name, func(t *testing.T) {
			program := filepath.Join(shared(t), "where")
			if out, err := exec.Command(library.compiler, "-o", program, source).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", library.compiler, err, out)
			}
			j := qsub(t, "alice", twoHosts, library.command+" "+program)
			j.succeeds()
			hosts := map[string]int{}
			text := j.stdout()
			for line := range strings.Lines(text) {
				var rank, size int
				var host, id, cgroups string
				const form = "rank=%d size=%d host=%s job=%s cgroups=%s"
				if _, err := fmt.Sscanf(line, form, &rank, &size, &host, &id, &cgroups); err != nil {
					t.Fatalf("%v: %q", err, line)
				}
				hosts[host]++
				if size != len(nodes) || id != j.id || !inJob(cgroups, j.id) {
					t.Errorf("rank %d of %d on %s, job %s, is in %s", rank, size, host, id, cgroups)
				}
			}
			for _, node := range nodes {
				if hosts[node] != 1 {
					t.Errorf("%d ranks on %s, want 1:\n%s", hosts[node], node, text)
				}
			}
			j.gone()
			idle(t, "alice")
		})
	}
}

func TestWhatPBSStartsOrAttachesOnASisterIsInTheJob(t *testing.T) {
	needNodes(t, 2)
	dir := shared(t)
	w := witness(t, dir)
	j := qsub(t, "alice", twoHosts, `PATH=$PATH:/opt/pbs/bin
pbsdsh -- `+w+` pbsdsh
pbs_tmrsh node2 `+w+` pbs_tmrsh
hookhost remsh node2 `+w+` remsh
ssh node2 "/opt/pbs/bin/pbs_attach -j $PBS_JOBID `+w+` pbs_attach"
ssh node2 "/opt/pbs/bin/pbs_attach -j $PBS_JOBID -p \$\$ >/dev/null; `+w+` pbs_attach-p"
ssh node2 "hookhost attach -j $PBS_JOBID -- `+w+` attach"
ssh node2 "hookhost attach -j $PBS_JOBID -p \$\$; `+w+` attach-p"
ssh node2 "pbs-attach -j $PBS_JOBID `+w+` pbs-attach"
ssh node2 "pbs-attach -j $PBS_JOBID -p \$\$; `+w+` pbs-attach-p"
ssh node2 `+w+` ssh`)
	j.succeeds()
	in := seen(t, dir, j.id)
	for _, want := range []string{"pbsdsh on node1", "pbsdsh on node2", "pbs_tmrsh on node2", "remsh on node2",
		"pbs_attach on node2", "pbs_attach-p on node2", "attach on node2", "attach-p on node2",
		"pbs-attach on node2", "pbs-attach-p on node2"} {
		if there, is := in[want]; !there || !is {
			t.Errorf("%s: ran %v, in the job %v", want, is, there)
		}
	}
	if in["ssh on node2"] { // else the above says nothing
		t.Error("plain ssh is in the job from the start")
	}
	if t.Failed() {
		t.Logf("%v\n%s%s", in, j.stdout(), j.stderr())
	}
	j.gone()
	idle(t, "alice")
}

func TestProcessesOfALoopOfSSHAreTakenIn(t *testing.T) {
	needNodes(t, 2)
	j := qsub(t, "alice", twoHosts, `for i in 1 2 3; do ssh -o SendEnv=PBS_JOBID node2 sleep 1000 & done; wait`)
	j.running()
	outside := func() int {
		n := 0
		for _, pid := range strings.Fields(on(t, "node2", "pgrep -u alice -x sleep || :")) {
			if !inJob(on(t, "node2", "cat /proc/"+pid+"/cgroup"), j.id) {
				n++
			}
		}
		return n
	}
	eventually(t, "three processes on node2", 20*time.Second, func() bool {
		return len(strings.Fields(on(t, "node2", "pgrep -u alice -x sleep || :"))) == 3
	})
	if outside() == 0 {
		t.Error("they are in the job from the start: nothing is taken in")
	}
	// hookhost looks every half minute, and when somebody asks for a report.
	eventually(t, "they are in the job", 40*time.Second, func() bool {
		on(t, "node2", "hookhost report "+j.id)
		return outside() == 0
	})
	j.deleted()
	idle(t, "alice")
}

func TestMemoryBeyondTheChunkOfASisterIsKilledThere(t *testing.T) {
	needNodes(t, 2)
	j := qsub(t, "alice", twoHosts, `/opt/pbs/bin/pbs_tmrsh node2 python3 -c 'bytearray(100 << 20)'; echo within $?
/opt/pbs/bin/pbs_tmrsh node2 python3 -c 'bytearray(300 << 20)'; echo beyond $?`)
	j.finished()
	var within, beyond int
	text := j.stdout()
	if _, err := fmt.Sscanf(text, "within %d\nbeyond %d", &within, &beyond); err != nil || within != 0 || beyond == 0 {
		t.Errorf("%v: %s%s", err, text, j.stderr())
	}
	if report := on(t, "node2", "hookhost report "+j.id); !strings.Contains(report, "OUT OF MEMORY") {
		t.Errorf("node2 does not report the kill:\n%s", report)
	}
	j.gone()
	idle(t, "alice")
}
