//go:build openpbs

package openpbs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestHostsOfTheConfigurationAreConfinedOrLeftAlone(t *testing.T) {
	needNodes(t, 2)
	t.Cleanup(func() {
		err := errors.Join(run("node1", "echo >"+vntypeFile), reconfigure("node1"))
		_, unset := output("root", nodes[0], "qmgr -c 'unset node node1 resources_available.vntype'")
		if err := errors.Join(err, unset); err != nil {
			t.Error(err)
		}
	})
	write(t, "node1", vntypeFile, "no_cgroups")
	settings(t, "", nodes...)
	section := func(controller, more string) string { return fmt.Sprintf(`%q: {"enabled": true%s}`, controller, more) }
	const top = `{%s "cgroup": {"cpuacct": {"enabled": true}, %s, %s}}`
	for _, c := range []struct{ name, host, cpuset, memory, without string }{
		{"exclude_hosts", `"exclude_hosts": ["node1"],`, "", "", "cpuset memory"},
		{"run_only_on_hosts", `"run_only_on_hosts": ["node2"],`, "", "", "cpuset memory"},
		{"exclude_hosts of cpuset", "", `, "exclude_hosts": ["node1"]`, "", "cpuset"},
		{"exclude_vntypes of memory", "", "", `, "exclude_vntypes": ["no_cgroups"]`, "memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			configuration := fmt.Sprintf(top, c.host, section("cpuset", c.cpuset), section("memory", c.memory))
			change(t, converted(t, configuration, nodes[0]), nodes...)
			jobs := map[string]*job{}
			for _, node := range nodes {
				jobs[node] = qsub(t, "alice", medium(node), "sleep 1000")
			}
			for node, j := range jobs {
				j.running()
				for controller, limited := range map[string]func() bool{
					"cpuset": func() bool { return j.read(node, "cpuset.cpus", "cpuset.cpus") == "0" },
					"memory": func() bool { return j.bytes(node, "memory.limit_in_bytes", "memory.max") == 300<<20 },
				} {
					has := strings.Contains(strings.Join(j.cgroups(node), " "), "/"+controller+"/") && limited()
					if want := node == "node2" || !strings.Contains(c.without, controller); has != want {
						t.Errorf("job %s on %s is limited by %s: %t, want %t", j.id, node, controller, has, want)
					}
				}
				j.forced()
			}
		})
	}
}

func TestPrefixAndDevicesOfTheConfiguration(t *testing.T) {
	node := nodes[0]
	t.Cleanup(func() {
		if err := errors.Join(run(node, "rm -f "+ownFile+" "+pbsHome+"/device.*"), restartDaemon(node)); err != nil {
			t.Error(err)
		}
	})
	write(t, node, "/run/pbs_cgroups.json", `{"cgroup_prefix": "sbp", "cgroup": {"cpuset": {"enabled": true}, "devices": {"enabled": true,
		"allow": ["b *:* rwm", ["console", "rwm"], ["tty0", "rwm", "*"], "c 1:* rwm", "c 10:* rwm"]}}}`)
	write(t, node, ownFile, imported(t, node, "/run/pbs_cgroups.json"))
	must.NoError(t, restartDaemon(node)) // a running daemon keeps its prefix
	// Numbers without a driver: what may be opened ends with ENXIO or ENODEV, the rest with EPERM.
	// On a /run that systemd has mounted (nodev) all would end with EACCES.
	on(t, node, "cd "+pbsHome+`; mknod -m 666 device.block b 240 9; mknod -m 666 device.misc c 10 254
mknod -m 666 device.other c 240 9; mknod -m 666 device.null c 1 3`)
	j := qsub(t, "alice", small(node), `python3 - <<END >devices.$PBS_JOBID
import os
for name in "block", "misc", "other", "null":
    try: os.open("`+pbsHome+`/device." + name, os.O_RDWR)
    except OSError as e: print(name, {1: "refused", 6: "allowed", 19: "allowed"}.get(e.errno, e))
    else: print(name, "allowed")
END
cat /proc/self/cgroup >>devices.$PBS_JOBID`)
	j.finished()
	said := as(t, "alice", node, "cat devices."+j.id)
	if want := "block allowed\nmisc allowed\nother refused\nnull allowed\n"; !strings.HasPrefix(said, want) {
		t.Errorf("what a job may open: %s\nwant %s", said, want)
	}
	if !strings.Contains(said, "/sbp.service/") || strings.Contains(said, "/pbs_jobs.service/") {
		t.Errorf("the job's cgroups are not below sbp.service: %s", said)
	}
}

func TestControllerThatIsMountedTwiceHasOneCgroupOfAJob(t *testing.T) {
	node := nodes[0]
	const again = "/dev/again"
	if _, err := output("root", node, "test -d /sys/fs/cgroup/memory"); err != nil {
		kernfstest.Elsewhere(t, "cgroup v2 has one hierarchy: make test-openpbs")
	}
	t.Cleanup(func() {
		if err := errors.Join(run(node, "umount "+again+"; rmdir "+again), reconfigure(node)); err != nil {
			t.Error(err)
		}
	})
	on(t, node, "mkdir "+again+" && mount -t cgroup -o memory cgroup "+again)
	settings(t, "", node)
	j := qsub(t, "alice", medium(node), "sleep 1000")
	j.running()
	if got := j.bytes(node, "memory.limit_in_bytes", "memory.max"); got != 300<<20 {
		t.Errorf("limit of mem in the first mount: %d", got)
	}
	if got := on(t, node, "cat "+again+"/pbs_jobs.service/jobid/"+j.id+"/memory.limit_in_bytes"); got != "314572800" {
		t.Errorf("limit of mem in the second mount: %s", got)
	}
	j.forced()
}
