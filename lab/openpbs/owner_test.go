//go:build openpbs

package openpbs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// hookhost is in an ordinary user's PATH, in the job and outside.
func TestOwnerIsToldTheTimeLeftAndTheUsageOfAJob(t *testing.T) {
	wait, release := hold(t)
	j := qsub(t, "alice", "-o left -j oe -l walltime=1:00:00 -l select=1:ncpus=1:mem=64mb:host="+nodes[0],
		"hookhost jobs --mine; hookhost report $PBS_JOBID >/dev/null && hookhost jobs | grep -c $PBS_JOBID; "+wait)
	j.running()
	report := "hookhost report " + j.id
	if got := as(t, "alice", nodes[0], report); !strings.Contains(got, j.id) {
		t.Errorf("alice's report of the running job %s: %q", j.id, got)
	}
	release()
	j.ended()
	if got := as(t, "alice", nodes[0], report); !strings.Contains(got, j.id) {
		t.Errorf("alice's report of the finished job %s: %q", j.id, got)
	}
	left, listed, _ := strings.Cut(as(t, "alice", nodes[0], "cat left && rm left"), "\n")
	if seconds, err := strconv.Atoi(left); err != nil || seconds < 3000 || seconds > 3600 {
		t.Errorf("jobs --mine in a job of an hour: %q", left)
	}
	if listed != "1" {
		t.Errorf("report and jobs in the job: %q", listed)
	}
}

// What qsub -v passes under the variables' names is replaced or removed.
func TestProgramsSeeTheShareOfTheirHost(t *testing.T) {
	needNodes(t, 2)
	file := filepath.Join(shared(t), "share")
	must.NoError(t, os.WriteFile(file, []byte(`#!/bin/sh
echo $1 on $(hostname): $PBS_JOB_MEM $PBS_JOB_NCPUS ${PBS_JOB_WALLTIME-none} "[$PBS_JOB_GPUS]"
`), 0o755))
	j := qsub(t, "alice", "-l select=1:ncpus=1:mem=64mb:host=node1+1:ncpus=1:mem=96mb:host=node2 "+
		"-v PBS_JOB_MEM=1gb,PBS_JOB_WALLTIME=1h,PBS_JOB_GPUS=GPU-1", file+` script
/opt/pbs/bin/pbs_tmrsh node2 `+file+` task
ssh node2 "hookhost attach -j $PBS_JOBID `+file+` attached"`)
	j.succeeds()
	lines := strings.Split(j.stdout(), "\n")
	slices.Sort(lines) // tasks write beside the script
	must.Equal(t, "standard output", []string{"attached on node2: 100663296 1 none []",
		"script on node1: 67108864 1 none []", "task on node2: 100663296 1 none []"}, lines)
}

// Hosts show a job's report to its owner alone. PBS shows what its query_other_jobs allows.
func TestOthersSeeOfAJobWhatPBSShowsThem(t *testing.T) {
	t.Cleanup(func() { on(t, nodes[0], "qmgr -c 'set server query_other_jobs = true'") })
	wait, release := hold(t)
	j := qsub(t, "bob", small(nodes[0]), wait)
	name := regexp.MustCompile(`\b` + regexp.QuoteMeta(j.id) + `\b`)
	hidden := func(when string) {
		t.Helper()
		for _, line := range []string{"hookhost jobs", "hookhost report"} {
			if got := as(t, "alice", nodes[0], line); name.MatchString(got) {
				t.Errorf("alice's `%s` of bob's %s job %s: %q", line, when, j.id, got)
			}
		}
		for _, allowed := range []bool{false, true} {
			on(t, nodes[0], fmt.Sprintf("qmgr -c 'set server query_other_jobs = %t'", allowed))
			got, err := output("alice", nodes[0], "hookhost report --json "+j.id)
			if shown := err == nil && got != ""; shown != allowed || strings.Contains(got, hostsAlone) {
				t.Errorf("query_other_jobs %t: alice's report of bob's %s job: %q, %v", allowed, when, got, err)
			}
		}
	}
	j.running()
	hidden("running")
	release()
	j.ended()
	hidden("finished")
}

// Where users come from LDAP or sssd, no node has them in /etc/passwd. Here nss-systemd has one.
// Each node has its own /run, so the machine does not get the user.
func TestOwnerWhomOnlyNameServicesKnow(t *testing.T) {
	needNodes(t, 2)
	const user, id = "hhtestlab", 61237
	home := shared(t)
	for _, node := range nodes {
		t.Cleanup(func() { on(t, node, "rm -rf /run/userdb") })
		on(t, node, fmt.Sprintf(`mkdir /run/userdb && cd /run/userdb
ln -s %[1]s.user %[2]d.user && ln -s %[1]s.group %[2]d.group
echo '{"userName":"%[1]s","uid":%[2]d,"gid":%[2]d,"homeDirectory":"%[3]s","shell":"/bin/sh"}' >%[1]s.user
echo '{"groupName":"%[1]s","gid":%[2]d}' >%[1]s.group`, user, id, home))
	}
	j := qsub(t, user, small(nodes[1])+" -j oe -k oe", "id -un; cat /proc/self/cgroup")
	j.succeeds()
	j.gone()
	name, cgroups, _ := strings.Cut(on(t, nodes[0], "cat "+home+"/STDIN.o"+j.short()), "\n")
	if name != user || !inJob(cgroups, j.id) {
		t.Errorf("the job of %s runs as %q in %q", user, name, cgroups)
	}
	for _, reader := range []string{"root", user} {
		if report := as(t, reader, nodes[1], "hookhost report "+j.id); !strings.Contains(report, user) {
			t.Errorf("%s's report: %s", reader, report)
		}
	}
}
