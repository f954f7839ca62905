package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// Jobs and vnodes of every form that PBS has. Memory-only NUMA nodes and cpus that are off line
// are in internal/placement's and internal/topology's tests: this machine has what it has.
func TestChecklist19EdgesOfJobsAndVnodes(t *testing.T) {
	m := newMoM(t)
	m.serve()
	var twelve []string
	for i := range 12 {
		twelve = append(twelve, fmt.Sprintf("pbshost[%d]:mem=4096kb", i))
	}
	for _, tt := range []struct {
		what string
		job  pbsJob
		mem  int64 // the limit; 0 leaves it open
	}{
		{"no cpus", pbsJob{id: "1901.pbshost", list: "ncpus=0,mem=32mb"}, 32 << 20},
		{"an array's", pbsJob{id: "1902[17].pbshost", list: "ncpus=1,mem=32mb"}, 32 << 20},
		{"an id with a domain", pbsJob{id: "1903.server.example.org", list: "ncpus=1,mem=32mb"}, 32 << 20},
		{"an id without a server", pbsJob{id: "1904", list: "ncpus=1,mem=32mb"}, 32 << 20},
		{"two chunks", pbsJob{id: "1905.pbshost", chunks: "(pbshost:ncpus=1:mem=20480kb)+(pbshost:ncpus=0:mem=12288kb)",
			list: "ncpus=1,mem=32mb"}, 32 << 20},
		{"other hosts of like names",
			pbsJob{id: "1906.pbshost",
				chunks: "(pbshost1:ncpus=8:mem=1gb)+(pbshost:ncpus=1:mem=32mb)+(xpbshost[0]:ncpus=8:mem=1gb)",
				list:   "ncpus=17,mem=2080mb"}, 32 << 20},
		{"its first vnode", pbsJob{id: "1907.pbshost", chunks: "(pbshost[0]:ncpus=1:mem=32768kb)",
			list: "ncpus=1,mem=32mb"}, 32 << 20},
		{"a dozen vnodes", pbsJob{id: "1908.pbshost", chunks: "(" + strings.Join(twelve, "+") + ")",
			list: "ncpus=0,mem=48mb"}, 48 << 20},
		{"vmem, where there may be no swap or no accounting of it",
			pbsJob{id: "1909.pbshost", list: "ncpus=1,mem=32mb,vmem=64mb"}, 32 << 20},
		{"no memory asked for", pbsJob{id: "1910.pbshost", list: "ncpus=1"}, 0},
		{"sizes in other units",
			pbsJob{id: "1911.pbshost", chunks: "(pbshost:ncpus=1:mem=33554432b)", list: "ncpus=1,mem=33554432b"},
			32 << 20},
		{"PBS's zeros", pbsJob{id: "1912.pbshost", chunks: "(pbshost:ncpus=1:mem=0kb:vmem=0kb:ngpus=0)",
			list: "ncpus=1,mem=0kb"}, 0},
	} {
		m.by = byFile // the shim has nothing to do with what comes next
		m.begin(tt.job)
		if len(m.dirsOf(tt.job.id)) == 0 {
			t.Errorf("%s: the job has no cgroup by its id", tt.what)
		}
		if got := m.limit(tt.job.id); tt.mem != 0 && got != tt.mem {
			t.Errorf("%s: limit %d, want %d", tt.what, got, tt.mem)
		}
		p := sleeper(t, ownerUID)
		if a := m.job("execjob_attach", tt.job, fmt.Sprintf("pid=%d", p.Process.Pid)); !a.accepted ||
			!memberOf(t, p.Process.Pid, "memory", tt.job.id) {
			t.Errorf("%s: attach: %+v", tt.what, a)
		}
		m.end(tt.job)
		p.Wait()
	}
	m.by = byShim
	for _, id := range []string{"../../x", "1913[", "a/b", "", "."} {
		j := pbsJob{id: id, list: "ncpus=1,mem=32mb"}
		if a := m.job("execjob_begin", j); a.accepted {
			t.Errorf("a job with the id %q has begun: %+v", id, a)
		}
	}
}

// A job that has all there is since it asked for nothing is in nobody's way. A job's quota is
// never above its parent's, which the kernel of v1 refuses.
func TestChecklist20LimitsOfAllAndOfTheParent(t *testing.T) {
	m := newMoM(t, "[cpu]\nenforce_per_period_quota = true")
	m.serve()
	open, next := pbsJob{id: "2001.pbshost", list: "ncpus=0"}, pbsJob{id: "2002.pbshost", list: "ncpus=1,mem=256mb"}
	m.begin(open)
	total := m.limit(open.id)
	m.begin(next)
	if total <= 256<<20 {
		t.Errorf("a job that asked for no memory has %d", total)
	}
	m.end(next)
	huge := pbsJob{id: "2003.pbshost", chunks: fmt.Sprintf("(pbshost:ncpus=1:mem=%dkb)", total>>10),
		list: fmt.Sprintf("ncpus=1,mem=%dkb", total>>10)}
	m.begin(huge)
	if a := m.job("execjob_begin", next); a.accepted || !a.is("job._rerun") {
		t.Errorf("beside a job that has asked for all: %+v, want it rerun", a)
	}
	m.end(huge)
	m.end(open)

	// Somebody leaves jobs a twentieth of a cpu, all together. The kernel of v1 counts a cgroup
	// that was removed a moment longer.
	must.Eventually(t, "the parent has a quota", func() bool {
		for _, dir := range m.cgroups("") {
			for file, text := range map[string]string{"cpu.max": "5000 100000", "cpu.cfs_quota_us": "5000"} {
				if path := filepath.Join(dir, file); exists(path) {
					return os.WriteFile(path, []byte(text), 0) == nil
				}
			}
		}
		return false
	})
	for _, list := range []string{"ncpus=1,mem=32mb", "ncpus=0,mem=32mb"} {
		j := pbsJob{id: "2004.pbshost", list: list}
		a := m.job("execjob_begin", j)
		if !a.accepted {
			t.Errorf("%s below a parent with a quota: %+v", list, a)
			continue
		}
		m.endAtLast(j)
		var quota, period int
		if _, err := fmt.Sscan(m.quota(j.id), &quota, &period); err != nil || quota*100000 > 5000*period {
			t.Errorf("%s: quota and period %q are above the parent's", list, m.quota(j.id))
		}
		m.end(j)
	}
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
