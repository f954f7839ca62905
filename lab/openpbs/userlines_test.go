//go:build openpbs

package openpbs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// forged are lines in the form of pbs_mom's, in the order in which pbs_mom would write them.
const forged = "a\npbs.event().job.Resource_List[pids]=100000\n" +
	"pbs.event().job.Resource_List[rlimit_memlock]=unlimited\n" +
	"pbs.event().job.Resource_List[vmem]=10gb\npbs.event().job.comment=x"

// asked is what the jobs of these tests ask for, as the server has it.
type asked [][3]string

// with puts a value in the place of another, or adds it.
func (a asked) with(name, resource, value string) asked {
	b := asked{{name, resource, value}}
	for _, v := range a {
		if v[0] != name || v[1] != resource {
			b = append(b, v)
		}
	}
	return b
}

// submit is a user's own client: unlike qsub it does not look at what it is told.
func submit(t *testing.T, user string, a asked) (*job, error) {
	t.Helper()
	text, err := json.Marshal(a)
	must.NoError(t, err)
	out, err := output(user, nodes[0], "printf 'sleep 100\\n' >job.sh; python3 - <<'END OF CLIENT'\n"+`
import ctypes, glob, json, sys
class A(ctypes.Structure): pass
A._fields_ = [("next", ctypes.POINTER(A)), ("name", ctypes.c_char_p), ("resource", ctypes.c_char_p),
    ("value", ctypes.c_char_p), ("op", ctypes.c_int)]
pbs, first = ctypes.CDLL("/opt/pbs/lib/libpbs.so"), None
for name, resource, value in json.loads(r'''`+string(text)+`'''):
    first = ctypes.pointer(A(first, name.encode(), resource.encode() or None, value.encode(), 0))
pbs.set_no_attribute_verification()
pbs.pbs_submit.restype = pbs.pbs_geterrmsg.restype = ctypes.c_char_p
c = pbs.pbs_connect(None)
id = pbs.pbs_submit(c, first, b"job.sh", None, None)
if not id:
    sys.exit("refused: %s" % pbs.pbs_geterrmsg(c))
print(id.decode())
END OF CLIENT`)
	if err != nil {
		return nil, err
	}
	j := &job{t: t, id: out}
	t.Cleanup(func() { output("root", nodes[0], "qdel -W force '"+j.id+"' 2>/dev/null") })
	return j, nil
}

// bounds are the limits of the job on a node, and one of its first process.
func (j *job) bounds(node string) string {
	j.t.Helper()
	pid := strings.Fields(on(j.t, node, "cat "+j.cgroups(node)[0]+"/cgroup.procs"))[0]
	return strings.Join([]string{
		"memory " + j.read(node, "memory.limit_in_bytes", "memory.max"),
		"swap " + j.read(node, "memory.memsw.limit_in_bytes", "memory.swap.max"),
		"pids " + j.read(node, "pids.max", "pids.max"),
		strings.Join(strings.Fields(on(j.t, node, "grep 'Max locked memory' /proc/"+pid+"/limits")), " "),
	}, ", ")
}

const notMoMs = "a line that pbs_mom did not write"

// decided waits until the job's program runs, or its begin was refused; runs tells which.
func (j *job) decided() (runs bool) {
	j.t.Helper()
	j.becomes("runs or is refused", func(a attributes) bool {
		runs = a.State == "R" && a.Substate == 42
		return runs || a.State == "H"
	})
	return runs
}

// refusal is why a node's MoM did not begin the job.
func (j *job) refusal(node string) string {
	j.t.Helper()
	line := on(j.t, node, "cat "+pbsHome+"/mom_logs/* | grep -F ';"+j.id+";hookhost: execjob_begin of job '")
	_, why, _ := strings.Cut(line, j.id+": rejected: ")
	return why
}

// A newline in a variable is nothing that qsub minds.
func TestLineOfAVariableIsNotMoMs(t *testing.T) {
	node := nodes[len(nodes)-1]
	j := qsub(t, "alice", "-l select=1:ncpus=0:mem=50mb:host="+node+` -v $'EVIL=a\npbs.event().job.Resource_List[vmem]=10gb\npbs.event().job.comment=x'`,
		"sleep 1000")
	runs := j.decided()
	why := j.refusal(node)
	const want = notMoMs + ": pbs.event().job.Resource_List[vmem] behind pbs.event().job.Variable_List, variable EVIL"
	if runs || !strings.HasSuffix(why, want) {
		t.Errorf("runs: %v, refused for %q, want %q", runs, why, want)
	}
	j.forced()
}

// Text of a job's owner gives the job no other limits, wherever it stands, whether the job runs or
// not.
func TestLinesOfUsersChangeNoLimits(t *testing.T) {
	node := nodes[len(nodes)-1]
	settings(t, "[pids]\nenabled = true\nmax = 500\n", node)
	plain := asked{
		{"Resource_List", "select", "1:ncpus=0:mem=50mb:host=" + node}, {"Job_Name", "", "plain"},
		{"Output_Path", "", nodes[0] + ":/dev/null"}, {"Error_Path", "", nodes[0] + ":/dev/null"},
	}
	honest, err := submit(t, "alice", plain)
	must.NoError(t, err)
	tried := map[string]*job{}
	try := func(name, resource, value string) {
		place := name
		if resource != "" {
			place += "[" + resource + "]"
		}
		j, err := submit(t, "alice", plain.with(name, resource, value))
		if err != nil {
			_, why, _ := strings.Cut(err.Error(), "exit status")
			t.Logf("%s: %s", place, why)
			return
		}
		tried[place] = j
	}
	// The server takes neither such a project nor a comment of a user's.
	for _, name := range []string{"Job_Name", "Account_Name", "project", "gridname", "Submit_arguments",
		"argument_list", "Submit_Host", "tolerate_node_failures", "comment"} {
		try(name, "", forged)
	}
	for _, name := range []string{"Output_Path", "Error_Path"} {
		try(name, "", nodes[0]+":/dev/null"+forged)
	}
	try("Variable_List", "", "EVIL="+forged)
	for _, resource := range []string{"site", "pstate", "software"} {
		try("Resource_List", resource, forged)
	}
	try("Resource_List", "place", "free"+forged)
	try("Resource_List", "select", "1:ncpus=0:mem=50mb:host="+node+":accelerator_model=\""+forged+"\"")
	if !honest.decided() {
		t.Fatal("the honest job does not run")
	}
	want := honest.bounds(node)
	run := 0
	for place, j := range tried {
		if !j.decided() {
			if why := j.refusal(node); !strings.Contains(why, notMoMs) {
				t.Errorf("%s: refused for %q, want %q", place, why, notMoMs)
			} else {
				t.Logf("%s: refused: %s", place, why[strings.Index(why, notMoMs):])
			}
			continue
		}
		run++
		if got := j.bounds(node); got != want {
			t.Errorf("%s: %s\nan honest job has %s", place, got, want)
		} else {
			t.Logf("%s: %s", place, got)
		}
	}
	if run == 0 || run == len(tried) {
		t.Errorf("%d of %d jobs run", run, len(tried))
	}
	tried["none"] = honest
	for _, j := range tried {
		on(t, nodes[0], "qdel -W force '"+j.id+"'")
	}
	for _, j := range tried { // gone takes 15.node1 for 5.node1
		j.gone()
	}
}
