//go:build openpbs

package openpbs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
)

// momPid is a shell line that prints the pid of a node's MoM.
const momPid = `cat ` + pbsHome + `/mom_priv/mom.lock`

// hangUp is a shell line that has MoM run exechost_startup.
const hangUp = `kill -HUP $(` + momPid + `)`

// goesOn is the option of a MoM that goes on with the jobs of the one before. A MoM without it ends
// them, and deletes its parts of jobs of other nodes.
const goesOn = "-p"

// startMoM is a shell script that starts a MoM and waits until it is there. A child of the one
// before may hold its port for a while. So a MoM that ends is started again, as an administrator
// would.
func startMoM(option string) string {
	return `old=$(` + momPid + `)
for i in $(seq 20); do
	/opt/pbs/sbin/pbs_mom ` + option + `
	for k in $(seq 50); do
		new=$(` + momPid + `); [ "$new" != "$old" ] && kill -0 $new 2>/dev/null && exit 0
		sleep 0.1
	done
done
echo "pbs_mom does not start" >&2; tail -n 20 ` + pbsHome + `/mom_logs/* >&2; exit 1`
}

// momIsUp starts the MoM of a node where none runs, and waits until the server knows by
// its natural vnode. Beside a Stale vnode, pbsnodes has <various> for the state of the whole node.
func momIsUp(node, option string) error {
	return errors.Join(run(node, startMoM(option)),
		until(nodes[0], "pbsnodes -v "+node+" | grep -qE 'state = (free|job-busy|job-exclusive|offline)'"))
}

// TestRestartedMoMsJobsEndWhereItHasForgottenThemAlone kills the MoM of a sister, and restarts it
// as an administrator would: it forgets its jobs. The MoM of the other node is restarted with -p:
// it knows its job.
func TestRestartedMoMsJobsEndWhereItHasForgottenThemAlone(t *testing.T) {
	needNodes(t, 2)
	lost := qsub(t, "alice", "-l select=2:ncpus=1:mem=64mb -l place=scatter", "/opt/pbs/bin/pbsdsh -- /bin/sleep 1000")
	lost.running()
	eventually(t, "the sister runs its part", func() bool {
		return on(t, nodes[1], "pgrep -u alice -x sleep || :") != ""
	})
	on(t, nodes[1], "kill -KILL $("+momPid+")")
	on(t, nodes[0], "qdel -W force "+lost.id)
	began := time.Now()
	must.NoError(t, momIsUp(nodes[1], ""))

	wait, release := hold(t)
	kept := qsub(t, "alice", small(nodes[0]), wait)
	kept.running()
	on(t, nodes[0], "kill -KILL $("+momPid+")")
	must.NoError(t, momIsUp(nodes[0], goesOn))
	restarted := time.Now()
	eventually(t, nodes[1]+" has nothing left", func() bool {
		return len(lost.cgroups(nodes[1])) == 0 && on(t, nodes[1], "pgrep -u alice -x sleep || :") == ""
	})
	t.Logf("what the sister had was gone %.0f s after the start of its MoM", time.Since(began).Seconds())
	lost.vanished()
	time.Sleep(time.Until(restarted.Add(38 * time.Second))) // the other daemon has looked for its jobs by then
	if len(kept.cgroups(nodes[0])) == 0 {
		t.Errorf("%s has no cgroup of job %s, which lives", nodes[0], kept.id)
	}
	release()
	kept.succeeds()
	kept.gone()
}

// TestReportsTimeIsTheJobsOwnAfterARestartOfMoM restarts a MoM with -p, which loses the time since
// it wrote the job's file.
func TestReportsTimeIsTheJobsOwnAfterARestartOfMoM(t *testing.T) {
	node := nodes[0]
	wait, release := hold(t)
	j := qsub(t, "alice", small(node), wait)
	j.running()
	before := time.Now()
	on(t, nodes[0], "qsig -s suspend "+j.id)
	eventually(t, "it is suspended", func() bool {
		return strings.Contains(on(t, node, "hookhost jobs"), "suspended")
	})
	on(t, nodes[0], "sleep 5; qsig -s resume "+j.id)
	longest := time.Since(before)
	on(t, node, "sleep 5; kill -KILL $("+momPid+"); sleep 5")
	must.NoError(t, momIsUp(node, goesOn))
	release()
	j.succeeds()
	j.gone()
	var r struct {
		Start, End time.Time
		Used       struct {
			Walltime string `json:"walltime"`
		} `json:"resources_used"`
		Notes []string
	}
	must.NoError(t, json.Unmarshal([]byte(on(t, node, "hookhost report --format json "+j.id)), &r))
	told, err := pbs.ParseDuration(r.Used.Walltime)
	must.NoError(t, err)
	notes := strings.Join(r.Notes, "\n")
	_, seconds, _ := strings.Cut(notes, "suspended for ")
	seconds, _, _ = strings.Cut(seconds, " seconds in all")
	suspended, err := time.ParseDuration(seconds + "s")
	if err != nil || suspended < 4*time.Second || suspended > longest+time.Second {
		t.Errorf("a job that was suspended for 5 s to %v: %v, notes %q", longest, err, r.Notes)
	}
	if ran := r.End.Sub(r.Start) - suspended; (ran - told).Abs() > 3*time.Second {
		t.Errorf("the report has a walltime of %v of a job that ran for %v", told, ran)
	}
	note := fmt.Sprintf("pbs_mom counted a walltime of %v", j.attributes().ResourcesUsed["walltime"])
	if !strings.Contains(notes, note) {
		t.Errorf("no note %q: %q", note, r.Notes)
	}
}

// rejecting is a hook of the site that rejects each begin on a node.
const rejecting = `import pbs
if pbs.get_local_nodename() == "%s":
    pbs.event().reject("not here")
`

// TestRoomOfABeginThatAnotherHookRejectedIsTheNextJobs has a begin rejected behind hookhost's, of
// which MoM sends nothing more, and wants the whole node then.
func TestRoomOfABeginThatAnotherHookRejectedIsTheNextJobs(t *testing.T) {
	node := nodes[len(nodes)-1]
	hook := newSiteHook(t, "reject", "execjob_begin", 300, fmt.Sprintf(rejecting, node)) // behind hookhost's
	j := qsub(t, "alice", "-l select="+chunks()+":ncpus=1:mem=64mb -l place=scatter", "true")
	eventually(t, "the begin is rejected", func() bool {
		found := on(t, node, "grep -c '"+j.id+".*not here' "+pbsHome+"/mom_logs/* /dev/null | grep -v ':0$' || :")
		return strings.Contains(found, ":")
	})
	on(t, nodes[0], "qdel -W force "+j.id)
	hook.remove()
	if len(j.cgroups(node)) == 0 {
		t.Logf("job %s has no cgroup on %s any more: nothing is tested", j.id, node)
	}
	all := on(t, node, "nproc")
	next := qsub(t, "alice", "-l select=1:ncpus="+all+":mem=64mb:host="+node, "true")
	next.succeeds()
	j.vanished()
	next.gone()
}

// chunks is one for each node.
func chunks() string { return map[int]string{1: "1", 2: "2"}[len(nodes)] }
