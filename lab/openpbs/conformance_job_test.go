//go:build openpbs

package openpbs_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func TestJobOnTwoNodesHasACgroupOnEachAndLeavesNone(t *testing.T) {
	needNodes(t, 2)
	for name, end := range map[string]func(j *job, release func()){
		"ends by itself": func(_ *job, release func()) { release() },
		"is deleted":     func(j *job, _ func()) { on(t, nodes[0], "qdel "+j.id) },
	} {
		t.Run(name, func(t *testing.T) {
			wait, release := hold(t)
			j := qsub(t, "alice", "-l select=2:ncpus=1:mem=100mb -l place=scatter", wait)
			j.running()
			for _, node := range nodes {
				dirs := strings.Join(j.cgroups(node), " ")
				if !strings.Contains(dirs, "/pbs_jobs.service/") {
					t.Errorf("%s has no cgroup of job %s", node, j.id)
				}
			}
			end(j, release)
			j.ended()
		})
	}
}

func TestSubjobsHaveCgroupsWhileTheyRun(t *testing.T) {
	node := nodes[0]
	array := qsub(t, "alice", "-J 1-4 -l select=1:ncpus=1:mem=300mb:host="+node+" -l place=pack:excl", "sleep 1000")
	subjob := func(i string) *job { return &job{t, strings.Replace(array.id, "[]", "["+i+"]", 1)} }
	first := subjob("1")
	first.running()
	if len(first.cgroups(node)) == 0 {
		t.Errorf("%s has no cgroup of %s", node, first.id)
	}
	for _, j := range []*job{array, subjob("4")} {
		if dirs := j.cgroups(node); len(dirs) > 0 {
			t.Errorf("%s, which does not run, has cgroups %s", j.id, dirs)
		}
	}
	on(t, nodes[0], "qdel '"+first.id+"'")
	first.gone()
	second := subjob("2")
	second.running()
	second.forced()
}

func TestEndOfAJobRemovesItsCgroupWithoutAnEpilogue(t *testing.T) {
	node := nodes[0]
	hook := pbsHome + "/mom_priv/hooks/hookhost.HK"
	t.Cleanup(func() {
		err := run(nodes[0], "qmgr -c 'set hook hookhost event += execjob_epilogue'")
		for _, node := range nodes {
			err = errors.Join(err, until(node, "grep -q execjob_epilogue "+hook))
		}
		if err != nil {
			t.Error(err)
		}
	})
	qmgr(t, "set hook hookhost event -= execjob_epilogue")
	for _, node := range nodes {
		must.NoError(t, until(node, "! grep -q execjob_epilogue "+hook))
	}
	j := qsub(t, "alice", small(node), "sleep 1")
	j.ended()
	end := "event=execjob_end job=" + j.id // logged when the event is over
	eventually(t, "the log has "+end, func() bool { n, err := said(node, end); return err != nil || n > 0 })
	for event, want := range map[string]int{"execjob_begin": 1, "execjob_epilogue": 0, "execjob_end": 1} {
		if n, err := said(node, "event="+event+" job="+j.id); err != nil || n != want {
			t.Errorf("%s of job %s: %d, %v, want %d", event, j.id, n, err, want)
		}
	}
}

func TestConfigurationThatOpenPBSShips(t *testing.T) {
	node := nodes[0]
	settings(t, imported(t, node, "/opt/pbs/lib/python/altair/pbs_hooks/pbs_cgroups.CF"), node)
	before, err := said(node, "level=error")
	must.NoError(t, err)
	j := qsub(t, "alice", "-l select=1:ncpus=1:mem=100mb:host="+node, "sleep 1000")
	j.running()
	if len(j.cgroups(node)) == 0 {
		t.Errorf("%s has no cgroup of job %s", node, j.id)
	}
	j.deleted()
	if after, err := said(node, "level=error"); err != nil || after != before {
		t.Errorf("errors in the daemon's log: %d more, %v", after-before, err)
	}
}

func TestPeriodicTellsNothingOfAJobThatHasEnded(t *testing.T) {
	node := nodes[0]
	ended := qsub(t, "alice", "-l select=1:ncpus=1:mem=100mb:host="+node, "true")
	used := ended.finished().ResourcesUsed
	ended.gone()
	// A cgroup is left behind, as by a hook that crashed.
	on(t, node, "cd /sys/fs/cgroup; d=memory/pbs_jobs.service/jobid/"+ended.id+"; mkdir $d 2>/dev/null || "+
		"{ d=pbs_jobs.service/jobs/"+ended.id+"; mkdir $d; }; python3 -c 'import os, sys; "+
		`os.setxattr(sys.argv[1], "trusted.hookhost.job", b"{}")' $d`)
	wait, release := hold(t)
	running := qsub(t, "alice", "-l select=1:ncpus=1:mem=100mb:host="+node, wait)
	running.running()
	twicePeriodic(t, node)
	release()
	running.succeeds()
	ended.gone()
	if got := ended.attributes().ResourcesUsed; !reflect.DeepEqual(got, used) {
		t.Errorf("resources_used of job %s: %v, at its end %v", ended.id, got, used)
	}
}
