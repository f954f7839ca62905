//go:build openpbs

package openpbs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// twoHosts is what a job asks for that has a chunk on each of two nodes.
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
		eventually(t, node+" has no process of "+user, func() bool {
			left = on(t, node, "all=$(pgrep -u "+user+" -a) || [ $? = 1 ] || exit; grep -v qsub <<<$all || :")
			return left == ""
		})
	}
}

// threeHosts is what a job of threeNodes asks for that has a chunk on each node.
const threeHosts = "-l select=3:ncpus=1:mem=300mb -l place=scatter "

// launcher is an MPI library as its users call it.
type launcher struct {
	name, compiler, command string
	// remote is how many hosts each node starts.
	remote map[string]int
}

var launchers = []launcher{
	{"Open MPI", "mpicc.openmpi", "mpirun.openmpi", map[string]int{"node1": 2}},
	{"Open MPI, hosts that start hosts", "mpicc.openmpi", "env OMPI_MCA_routed_radix=1 mpirun.openmpi",
		map[string]int{"node1": 1, "node2": 1}},
	{"MPICH", "mpicc.mpich", "mpiexec.mpich", map[string]int{"node1": 2}},
}

// where compiles the program that prints where its ranks are.
func (l launcher) where(t *testing.T) string {
	t.Helper()
	source, err := filepath.Abs("../../testdata/mpi/where.c")
	must.NoError(t, err)
	program := filepath.Join(shared(t), "where")
	if out, err := exec.Command(l.compiler, "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", l.compiler, err, out)
	}
	return program
}

// everywhere fails unless each node had one of the ranks that the program printed, in the job's
// cgroup.
func everywhere(t *testing.T, text, id string) {
	t.Helper()
	hosts := map[string]int{}
	for line := range strings.Lines(text) {
		_, line, found := strings.Cut(line, "rank=") // a terminal has more before it
		if !found {
			continue
		}
		var rank, size int
		var host, of, cgroups string
		const form = "%d size=%d host=%s job=%s cgroups=%s"
		if _, err := fmt.Sscanf(line, form, &rank, &size, &host, &of, &cgroups); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		hosts[host]++
		if size != len(nodes) || of != id || !inJob(cgroups, id) {
			t.Errorf("rank %d of %d on %s, job %s, is in %s", rank, size, host, of, cgroups)
		}
	}
	for _, node := range nodes {
		if hosts[node] != 1 {
			t.Errorf("%d ranks on %s, want 1:\n%s", hosts[node], node, text)
		}
	}
}

// A user who knows nothing of hookhost calls mpirun three times in a job. It ends by itself, is
// killed, and ends when the job is deleted.
func TestRanksOfMPIAreInTheJobAndEndWithLauncherAndJob(t *testing.T) {
	threeNodes(t)
	for _, l := range launchers {
		t.Run(l.name, func(t *testing.T) {
			program := l.where(t)
			file := func(name string) string { return filepath.Join(filepath.Dir(program), name) }
			hold, next := file("hold"), file("next")
			must.NoError(t, os.WriteFile(hold, nil, 0o644))
			j := qsub(t, "alice", threeHosts, "echo typed | "+l.command+
				` sh -c '[ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" != 0 ] || cat'
`+l.command+" "+program+" "+hold+" 7; echo status $?; echo >"+file("status")+`
`+l.command+" "+program+" "+file("status")+" >/dev/null 2>&1 & echo $! >"+file("launcher")+`
wait; until [ -e `+next+` ]; do sleep 0.2; done
`+l.command+" sleep 1000 >/dev/null 2>&1")
			j.running()
			for i, node := range nodes {
				eventually(t, "the report of "+node+" has the rank", func() bool {
					host := j.report(node).Hosts[node]
					return host != nil && slices.ContainsFunc(host.Ranks, func(r rank) bool {
						return r.Rank == i && r.Comm == "where"
					})
				})
				count := on(t, node, "pgrep -c -u alice -x pbs_tmrsh || :")
				if want := fmt.Sprint(l.remote[node]); count != want {
					t.Errorf("%s waits for %s hosts, want %s", node, count, want)
				}
			}
			must.NoError(t, os.Remove(hold))

			runs := func(node, what string) bool { return on(t, node, "pgrep -u alice -x "+what+" || :") != "" }
			eventually(t, "the ranks have ended", func() bool {
				_, err := os.Stat(file("status"))
				return err == nil
			})
			for _, node := range nodes {
				eventually(t, "a rank is on "+node, func() bool { return runs(node, "where") })
			}
			on(t, nodes[0], "kill -KILL $(cat "+file("launcher")+")")
			for _, node := range nodes {
				eventually(t, "no rank is on "+node, func() bool { return !runs(node, "where") })
			}

			must.NoError(t, os.WriteFile(next, nil, 0o644))
			for _, node := range nodes {
				eventually(t, "a process is on "+node, func() bool { return runs(node, "-f 'sleep 1000'") })
			}
			j.deleted()
			idle(t, "alice")
			text := j.stdout()
			if lines := strings.Split(text, "\n"); lines[0] != "typed" || lines[len(lines)-1] != "status 7" {
				t.Errorf("rank 0's standard input and the ranks' exit status:\n%s%s", text, j.stderr())
			}
			everywhere(t, text, j.id)
		})
	}
}

func TestInteractiveJobRunsMPI(t *testing.T) {
	threeNodes(t)
	l := launchers[2]
	j, text := interactive(t, threeHosts, l.command+" "+l.where(t)+"; exit")
	everywhere(t, strings.ReplaceAll(text, "\r", ""), j.id)
	j.ended()
	idle(t, "alice")
}

// Each command has its own exit status and says where it ran.
func TestNoRemoteStartOfTwoHundredIsLost(t *testing.T) {
	threeNodes(t)
	dir := shared(t)
	j := qsub(t, "alice", threeHosts, `for i in $(seq 200); do
	hookhost-remsh node$((i % 3 + 1)) "cat /proc/self/cgroup >`+dir+`/$i; exit $((i % 100))" &
	started="$started $!"
done
i=0
for pid in $started; do
	i=$((i + 1))
	wait $pid; status=$?
	[ $status = $((i % 100)) ] || echo "$i: status $status"
done`)
	j.becomes("has finished", func(a attributes) bool { return a.State == "F" })
	if text := j.stdout() + j.stderr(); text != "" {
		t.Error(text)
	}
	for i := 1; i <= 200; i++ {
		cgroups, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil || !inJob(string(cgroups), j.id) {
			t.Errorf("command %d: %v, in %s", i, err, cgroups)
		}
	}
	j.gone()
	idle(t, "alice")
}

// OpenPBS by itself takes from one second to minutes for a job whose tasks are being started.
func TestJobDeletedWhileTasksAreStartedLeavesNothing(t *testing.T) {
	threeNodes(t)
	j := qsub(t, "alice", threeHosts, `for i in $(seq 100); do hookhost-remsh node$((i % 3 + 1)) exec sleep 1000 & done
wait`)
	for _, node := range nodes {
		eventually(t, "the job is on "+node, func() bool {
			return on(t, node, "pgrep -u alice -x sleep || :") != ""
		})
	}
	on(t, nodes[0], "qdel "+j.id+"; sleep 5; qdel -W force "+j.id+" || :")
	j.gone()
	idle(t, "alice")
}

func TestCommandOfRemshIsATaskOfTheJob(t *testing.T) {
	needNodes(t, 2)
	dir := shared(t)
	file := filepath.Join(dir, "file")
	until := func(file string) string { return "until [ -e " + file + " ]; do sleep 0.1; done" }
	j := qsub(t, "alice", twoHosts+"-v PASSED=yes", `export EXPORTED=1
hookhost remsh node2 'echo "$(hostname) $PBS_JOBID $PASSED-$EXPORTED $0"'
caught=$(hookhost remsh node2 echo out); echo "caught [$caught]"
echo typed | hookhost remsh node2 cat; echo cat $?
hookhost remsh node2 'exit 7'; echo exit $?
hookhost remsh node2 'kill -TERM $$'; echo kill $?
hookhost remsh alice@node2 'exit 8'; echo user $?
hookhost remsh bob@node2 true; echo another user $?
hookhost remsh node9 true; echo another host $?
hookhost remsh node2 'echo >`+dir+`/begun; `+until(dir+"/killed")+`; echo >`+file+`' &
`+until(dir+"/begun")+`; kill -KILL $!; wait $!; echo >`+dir+`/killed
for i in $(seq 600); do [ ! -e `+file+` ] || break; sleep 0.1; done`)
	j.succeeds()
	want := []string{"another host 255", "another user 255", "cat 0", "caught []", "exit 7", "kill 15",
		"node2 " + j.id + " yes- /bin/sh", "out", "user 8"}
	lines := strings.Split(j.stdout(), "\n")
	slices.Sort(lines) // tasks write beside the script
	must.Equal(t, "standard output", want, lines)
	for _, reason := range []string{`bad user "bob"`, `host "node9" is not a node in job <` + j.id + `>`} {
		if text := j.stderr(); !strings.Contains(text, "pbs_tmrsh: "+reason+"\n") {
			t.Errorf("standard error has no %s:\n%s", reason, text)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("a command whose caller was killed: %v", err)
	}
	j.gone()
	idle(t, "alice")
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
	waited := false // a process was outside: hookhost may move one before all three have started
	eventually(t, "three processes on node2", func() bool {
		waited = waited || outside() > 0
		return len(strings.Fields(on(t, "node2", "pgrep -u alice -x sleep || :"))) == 3
	})
	if !waited && outside() == 0 {
		t.Error("they are in the job from the start: nothing is taken in")
	}
	// hookhost looks every half minute, and when somebody asks for a report.
	eventually(t, "they are in the job", func() bool {
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
	report := on(t, "node2", "hookhost report "+j.id)
	if !strings.Contains(report, "the kernel killed ") {
		t.Errorf("node2 does not report the kill:\n%s", report)
	}
	j.gone()
	idle(t, "alice")
}
