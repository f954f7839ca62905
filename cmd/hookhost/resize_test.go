package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// value reads an interface file of a job; both names are of the same limit, on v1 and on v2.
func (n *node) value(id, v1, v2 string) string {
	n.t.Helper()
	for _, name := range []string{v1, v2} {
		for _, pattern := range []string{"/sys/fs/cgroup/*/", "/sys/fs/cgroup/"} {
			files, _ := filepath.Glob(pattern + n.prefix + ".service/job*/" + id + "/" + name)
			for _, f := range files {
				b, err := os.ReadFile(f)
				must.NoError(n.t, err)
				return strings.TrimSpace(string(b))
			}
		}
	}
	n.t.Fatalf("job %s has neither %s nor %s", id, v1, v2)
	return ""
}

// TestResizeOfARunningJobIsInForceOrRefused changes a running job up and down, and refuses what it
// cannot have with nothing changed.
func TestResizeOfARunningJobIsInForceOrRefused(t *testing.T) {
	if online(t) < 2 {
		kernfstest.Elsewhere(t, "two cpus to resize within")
	}
	n := newNode(t, "[host]\nnode = \"n1\"")
	n.serve()
	job := n.start("run", "--job", "75.x", "-l", "select=1:ncpus=1:mem=256mb", "--report=json", "--",
		"python3", "-c", "import sys; x = bytearray(80 << 20); print('started', flush=True); sys.stdin.read()")
	is := func(ncpus int, mem int64) {
		t.Helper()
		if got := n.value("75.x", "memory.limit_in_bytes", "memory.max"); got != fmt.Sprint(mem) {
			t.Errorf("memory limit %s, want %d", got, mem)
		}
		if got := strings.ContainsAny(n.value("75.x", "cpuset.cpus", "cpuset.cpus"), ",-"); got != (ncpus > 1) {
			t.Errorf("cpus %s, want %d", n.value("75.x", "cpuset.cpus", "cpuset.cpus"), ncpus)
		}
	}
	resize := func(ncpus int, kb int64) result {
		t.Helper()
		return n.send("execjob_resize",
			fmt.Sprintf(`{"job": {"id": "75.x", "exec_vnode": "(n1:ncpus=%d:mem=%dkb)", "resource_list": {"ncpus": "%d", "mem": "%dkb"}}}`,
				ncpus, kb, ncpus, kb))
	}
	is(1, 256*mib)
	if r := resize(2, 300<<10); r.status != 0 {
		t.Fatal(r)
	}
	is(2, 300*mib)
	const below = "mem requested (51200kb) is below what the job uses ("
	if r := resize(1, 50<<10); r.status != 1 || !strings.Contains(r.stdout+r.stderr, below) {
		t.Errorf("below use: %+v, want %q", r, below)
	}
	is(2, 300*mib)
	if r := resize(99999, 300<<10); r.status != 1 {
		t.Errorf("more cpus than there are: %+v", r)
	}
	is(2, 300*mib)
	if r := resize(1, 128<<10); r.status != 0 {
		t.Fatal(r)
	}
	is(1, 128*mib)
	if r := n.hookhost("run", "--report=none", "-l", "ncpus=1", "--", "true"); r.status != 0 {
		t.Errorf("a job on the cpu that was given back: %+v", r)
	}
	if r := n.send("execjob_preterm", `{"job": {"id": "75.x"}}`); r.status != 0 {
		t.Error(r)
	}
	rep := func() usageReport {
		job.stdin.Close()
		return job.report(t)
	}()
	for _, h := range rep.Hosts {
		if h.NCPUs != 1 || h.MemLimitBytes == nil || *h.MemLimitBytes != 128*mib {
			t.Errorf("report: %+v", h)
		}
	}
	if rep.ResourcesUsed["ncpus"] != float64(1) && fmt.Sprint(rep.ResourcesUsed["ncpus"]) != "1" {
		t.Errorf("ncpus %v", rep.ResourcesUsed["ncpus"])
	}
}
