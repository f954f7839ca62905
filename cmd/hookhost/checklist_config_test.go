package main_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A configuration of pbs_cgroups is taken over by the names of its keys, conditions included, and a key that nobody knows does no harm.
func TestChecklist02StockConfiguration(t *testing.T) {
	m := newMoM(t)
	stock := m.write("pbs_cgroups.json", fmt.Sprintf(`{
    "cgroup_prefix": %q,
    "exclude_hosts": ["login*"], "exclude_vntypes": ["no_cgroups"], "run_only_on_hosts": [],
    "periodic_resc_update": true, "vnode_per_numa_node": "vntype in: fat*", "online_offlined_nodes": true, "use_hyperthreads": false,
    "ncpus_are_cores": false, "discover_gpus": true, "manage_rlimit_as": true, "kill_timeout": 7, "our_own_remark": "keep",
    "cgroup": {
        "cpu": {"enabled": "host in: pbs*,other", "cfs_period_us": 50000, "cfs_quota_fudge_factor": 1.5, "enforce_per_period_quota": true},
        "cpuacct": {"enabled": true, "exclude_hosts": [], "exclude_vntypes": []},
        "cpuset": {"enabled": "vntype not in: fat*", "exclude_cpus": [], "mem_fences": false, "mem_hardwall": false, "memory_spread_page": false},
        "devices": {"enabled": false, "allow": ["b *:* rwm", "c *:* rwm"]},
        "memory": {"enabled": true, "soft_limit": false, "enforce_default": true, "exclhost_ignore_default": false, "default": "77MB",
            "reserve_percent": 0, "reserve_amount": "64MB"},
        "memsw": {"enabled": "host not in: pbshost", "default": "0B", "reserve_percent": 0, "reserve_amount": "64MB", "manage_cgswap": false},
        "hugetlb": {"enabled": false, "default": "0B", "reserve_percent": 0, "reserve_amount": "0B"}
    }
}`, m.prefix))
	r := m.hookhost("config", "import", stock)
	if r.status != 0 || !strings.Contains(r.stderr, "our_own_remark") {
		t.Fatalf("config import: status %d, %s", r.status, r.stderr)
	}
	// This node's own things, which pbs_cgroups has no keys for.
	own := fmt.Sprintf("node = %q\nstart_timeout = \"60s\"\n", m.name)
	text, found := strings.CutPrefix(r.stdout, "[host]\n")
	if !found {
		text = strings.Replace("\n"+r.stdout, "\n[host]\n", "\n[host]\n"+own, 1)
		if !strings.Contains(text, own) {
			text += "\n[host]\n" + own
		}
	} else {
		text = "[host]\n" + own + text
	}
	text += fmt.Sprintf("\n[openpbs]\nhome = %q\n", m.home)
	must(t, os.WriteFile(m.path("hookhost.toml"), []byte(text), 0o600))
	if r := m.hookhost("config", "check"); r.status != 0 {
		t.Fatalf("config check: %+v", r)
	}
	shown := m.hookhost("config", "show").stdout
	for _, want := range []string{"kill_timeout = '7s'", "periodic_resc_update = true", "vnode_per_numa_node = false"} {
		if !strings.Contains(shown, want) {
			t.Errorf("config show has no %s", want)
		}
	}
	m.serve()
	j := pbsJob{id: "201.pbshost", list: "ncpus=1"}
	m.begin(j)
	if got := m.limit(j.id); got != 77<<20 {
		t.Errorf("a job without mem has %d bytes, want the default of the file", got)
	}
	if got := m.quota(j.id); got != "75000 50000" {
		t.Errorf("quota and period: %s", got)
	}
	m.end(j)
}

// quota is a job's quota and period of cpu time in µs, as the kernel has them; "max" for none.
func (m *mom) quota(id string) string {
	m.t.Helper()
	if b, err := os.ReadFile("/sys/fs/cgroup/" + m.prefix + ".service/jobs/" + id + "/cpu.max"); err == nil {
		return strings.TrimSpace(string(b))
	}
	var values []string
	for _, file := range []string{"cpu.cfs_quota_us", "cpu.cfs_period_us"} {
		for _, dir := range m.dirsOf(id) {
			if b, err := os.ReadFile(dir + "/" + file); err == nil {
				values = append(values, strings.Replace(strings.TrimSpace(string(b)), "-1", "max", 1))
				break
			}
		}
	}
	return strings.Join(values, " ")
}
