//go:build openpbs

package openpbs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// confinedBy returns the hook that confines a job on a node, "" for none. pbs_cgroups has a file of
// each job.
func (j *job) confinedBy(node string) string {
	j.t.Helper()
	if len(j.cgroups(node)) == 0 {
		return ""
	}
	if run(node, "test -e "+pbsHome+"/mom_priv/hooks/hook_data/'"+j.id+"'") == nil {
		return "pbs_cgroups"
	}
	return "hookhost"
}

// limitFiles returns the limits of the job and of all jobs on a node, a line for each file of v1.
func (j *job) limitFiles(node string) string {
	j.t.Helper()
	dirs := "for d in " + strings.Join(j.cgroups(node), " ") + "; do "
	return on(j.t, node, dirs+"grep -sH . $d/cpuset.{cpus,mems} $d/cpu.{shares,cfs_quota_us} $d/*limit_in_bytes "+
		"$d/devices.list $d/memory.swappiness $d/../cpuset.cpus $d/../*limit_in_bytes; done; :")
}

// over deletes jobs, and waits until no node has a cgroup of one. Nodes may be without a daemon.
func over(t *testing.T, jobs []*job) {
	t.Helper()
	for _, j := range jobs {
		on(t, nodes[0], "qdel "+j.id)
	}
	for _, j := range jobs {
		j.finished()
		for _, node := range nodes {
			eventually(t, node+" has no cgroup of job "+j.id, func() bool { return len(j.cgroups(node)) == 0 })
		}
	}
}

// stockHook makes pbs_cgroups confine the jobs of all hosts except some, beside hookhost's hook.
func stockHook(t *testing.T, except []string) {
	t.Helper()
	const delivered, mine = "/opt/pbs/lib/python/altair/pbs_hooks/pbs_cgroups.CF", "/run/pbs_cgroups.json"
	list := strings.ReplaceAll(`["`+strings.Join(except, `", "`)+`"]`, `[""]`, "[]")
	first := fmt.Sprintf("sed '/exclude_hosts/{s/:.*/: %s,/;:a;n;ba}' ", list)
	on(t, nodes[0], first+delivered+" >"+mine)
	on(t, nodes[0], "qmgr -c 'import hook pbs_cgroups application/x-config default "+mine+"' 2>&1; "+
		"qmgr -c 'set hook pbs_cgroups enabled = true'")
	for _, node := range nodes {
		dir := pbsHome + "/mom_priv/hooks/pbs_cgroups"
		eventually(t, node+" has the stock hook's configuration", func() bool {
			return run(node, "grep -m1 exclude_hosts "+dir+".CF | grep -qF ': "+list+",' && "+
				"! grep -qx enabled=false "+dir+".HK") == nil
		})
	}
}

// stockLimits replaces the limits of all jobs on a node by those of pbs_cgroups, in the way of
// docs/at-scale.md. By default, that hook limits only memory.
func stockLimits(t *testing.T, node string) {
	t.Helper()
	on(t, node, "rmdir /sys/fs/cgroup/*/pbs_jobs.service/jobid; "+hangUp)
	eventually(t, node+" has the stock hook's limits", func() bool {
		return run(node, "cd /sys/fs/cgroup/memory/pbs_jobs.service/jobid && "+
			"! grep -q '^9223372' memory.limit_in_bytes && grep -q '^9223372' memory.memsw.limit_in_bytes") == nil
	})
}

// written waits until a job has written to a file of a shared directory, and returns the text.
func written(t *testing.T, dir, name string) (text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	eventually(t, file, func() bool {
		b, err := os.ReadFile(file)
		text = string(b)
		return err == nil && text != ""
	})
	return text
}

// A complex may have hookhost on some nodes, the stock hook on others, and neither on the rest. A
// roll-out goes through such stages, and back: docs/at-scale.md.
func TestHookhostStockHookAndNeitherInOneComplex(t *testing.T) {
	threeNodes(t)
	t.Cleanup(func() {
		on(t, nodes[0], "qmgr -c 'set hook pbs_cgroups enabled = false'; qmgr -c 'import hook pbs_cgroups "+
			"application/x-config default /opt/pbs/lib/python/altair/pbs_hooks/pbs_cgroups.CF' 2>&1; "+
			"qmgr -c 'set hook hookhost enabled = true'")
		for _, node := range nodes { // what vnodes have is hookhost's again
			must.NoError(t, until(node, "grep -qx enabled=false "+pbsHome+"/mom_priv/hooks/pbs_cgroups.HK"))
			must.NoError(t, reconfigure(node))
		}
	})
	// It begins beside the stock hook, which goes on meanwhile.
	on(t, nodes[0], "hookhost openpbs uninstall")
	stockHook(t, nil)
	for _, node := range nodes {
		stockLimits(t, node)
	}
	on(t, nodes[0], "hookhost openpbs install --disabled --freq 5")
	out := shared(t)
	wait := func(file string) string { return "until [ -e " + out + "/" + file + " ]; do sleep 0.2; done; " }
	touch := func(file string) { must.NoError(t, os.WriteFile(filepath.Join(out, file), nil, 0o644)) }
	first := qsub(t, "alice", "-l select=3:ncpus=1:mem=64mb -l place=scatter", ". /etc/pbs.conf; "+
		"pbsdsh() { $PBS_EXEC/bin/pbsdsh -- /bin/sh -c \"$1\"; }; "+
		wait("tasks")+"pbsdsh 'hostname >"+out+"/first.$(hostname); sleep 1000' & "+
		wait("enabled")+"sleep 1000 & $PBS_EXEC/bin/pbs_attach -j $PBS_JOBID -p $!; echo $? >"+out+"/attach; "+
		"pbsdsh 'cat /proc/self/cgroup >"+out+"/$(hostname)'; sleep 1000")
	first.running()
	for _, node := range nodes { // as the package does; the sisters' cgroups have no process yet
		before := first.limitFiles(node)
		must.NoError(t, restartDaemon(node))
		must.Equal(t, "the limits of the stock hook's job on "+node, before, first.limitFiles(node))
	}
	touch("tasks")
	for _, node := range nodes {
		written(t, out, "first."+node) // by a task there
	}
	sendConfiguration(t, "[host]\nenabled = false")
	on(t, nodes[0], "qmgr -c 'set hook hookhost enabled = true'")
	for _, node := range nodes {
		eventually(t, node+" has the hook", func() bool {
			return run(node, "! grep -qx enabled=false "+pbsHome+"/mom_priv/hooks/hookhost.HK") == nil
		})
	}
	touch("enabled") // the stock hook confines what the job starts and attaches from now on, too
	must.Equal(t, "exit status of pbs_attach", "0", strings.TrimSpace(written(t, out, "attach")))
	for _, node := range nodes {
		if at := written(t, out, node); !strings.Contains(at, "/"+first.id) {
			t.Errorf("the cgroup of a task on %s: %s", node, at)
		}
	}
	for _, node := range nodes {
		must.Equal(t, "the hook that confines a job on "+node, "pbs_cgroups", first.confinedBy(node))
	}
	first.running()
	over(t, []*job{first})

	const only = "[host]\nenabled = \"host in: %s\""
	one, two, three := nodes[0], nodes[1], nodes[2]
	for _, stage := range []struct {
		name, settings string
		except         []string // of pbs_cgroups
		without        []string // nodes without a daemon
		want           []string // the hook by node
	}{
		{"the first node", fmt.Sprintf(only, one), []string{one, three}, nil,
			[]string{"hookhost", "pbs_cgroups", ""}},
		{"two nodes without hookhost", fmt.Sprintf(only, one) + "\n[shim]\nunconfined = true\nwait = \"0s\"",
			[]string{one, three}, []string{two, three}, []string{"hookhost", "pbs_cgroups", ""}},
		{"all nodes", "[host]\nenabled = true", nodes, nil, []string{"hookhost", "hookhost", "hookhost"}},
		{"and back", "[host]\nenabled = false", nil, nil, []string{"pbs_cgroups", "pbs_cgroups", "pbs_cgroups"}},
	} {
		sendConfiguration(t, stage.settings)
		stockHook(t, stage.except)
		for _, node := range nodes {
			switch _, err := output("root", node, "hookhost jobs"); {
			case slices.Contains(stage.without, node):
				on(t, node, stopDaemon)
			case err != nil:
				on(t, node, startDaemon)
			}
		}
		if stage.name == "and back" {
			for _, node := range nodes {
				stockLimits(t, node)
			}
		}
		out := shared(t)
		wide := qsub(t, "alice", "-l select=3:ncpus=1:mem=64mb -l place=scatter", ". /etc/pbs.conf; "+
			"$PBS_EXEC/bin/pbsdsh -- /bin/sh -c 'cat /proc/self/cgroup >"+out+"/$(hostname); sleep 1000'")
		jobs := []*job{wide}
		for _, node := range nodes {
			jobs = append(jobs, qsub(t, "alice", small(node), "exec sleep 1000"))
		}
		for _, j := range jobs {
			j.running()
		}
		for i, node := range nodes {
			for what, j := range map[string]*job{"its job": jobs[1+i], "the job of three nodes": wide} {
				if got := j.confinedBy(node); got != stage.want[i] {
					t.Errorf("%s: %s: %s is confined by %q, want %q", stage.name, node, what, got, stage.want[i])
				}
			}
			at := written(t, out, node)
			if strings.Contains(at, "/"+wide.id) != (stage.want[i] != "") {
				t.Errorf("%s: the cgroup of a task on %s: %s", stage.name, node, at)
			}
		}
		over(t, jobs)
	}
}
