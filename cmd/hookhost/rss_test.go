package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

const byRSS = "[memory]\nenforce = \"rss\""

// With both, the kernel limits the job's memory with its page cache. A job that holds too much is
// told as with rss or, if the kernel is first, as with cgroup.
func TestCacheIsReclaimedUnderBothBounds(t *testing.T) {
	n := newNode(t, "[memory]\nenforce = \"both\"")
	job := n.start("run", "--job", "76.x", "-l", "select=1:ncpus=1:mem=100mb", "--report=json", "--", "sh", "-c",
		"echo started; read x; exit 0")
	if got := n.value("76.x", "memory.limit_in_bytes", "memory.max"); got != "104857600" {
		t.Errorf("the kernel's limit is %s, want 100 MiB", got)
	}
	job.stdin.Close()
	job.report(t)
	const read = "head -c 157286400 /dev/zero > $1 && cat $1 > /dev/null && rm $1"
	if r := n.hookhost("run", "-l", "select=1:ncpus=1:mem=100mb", "--report=none", "--", "sh", "-c", read, "sh",
		n.path("big")); r.status != 0 {
		t.Errorf("a job that writes and reads 150 MiB: status %d, %q", r.status, r.stderr)
	}
	r := n.hookhost("run", "-l", "select=1:ncpus=1:mem=100mb", "--report=none", "--", "python3", "-c",
		"import time; x=bytearray(150<<20); time.sleep(50)")
	if r.status != 137 && r.status != 143 || !memExceeded.MatchString(r.stderr) &&
		!strings.Contains(r.stderr, "Cgroup mem limit exceeded: ") {
		t.Errorf("a job that holds 150 MiB: status %d, %q", r.status, r.stderr)
	}
}

var (
	memExceeded  = regexp.MustCompile(`(?m)^=>> PBS: job killed: mem 1\d{5}kb exceeded limit 102400kb$`)
	pmemExceeded = regexp.MustCompile(`(?m)^=>> PBS: job killed: pmem 1\d{5}kb exceeded limit 102400kb$`)
)

// A job that touches 150 MiB under mem=100mb is killed, told why, and so is everybody else.
func TestResidentMemoryOverItsBoundIsKilled(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		asks         []string
		text         *regexp.Regexp
	}{
		{"mem", byRSS, []string{"-l", "select=1:ncpus=1:mem=100mb"}, memExceeded},
		{"pmem", "", []string{"-l", "select=1:ncpus=1:mem=1gb", "-l", "pmem=100mb"}, pmemExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, tt.config)
			args := append(append([]string{"run", "--report=json"}, tt.asks...), "--", "python3", "-c",
				"import time; x=bytearray(150<<20); time.sleep(50)")
			r := n.hookhost(args...)
			if r.status != 137 && r.status != 143 {
				t.Errorf("status %d, want 137 or 143", r.status)
			}
			if !tt.text.MatchString(r.stderr) {
				t.Errorf("stderr %q has no %s", r.stderr, tt.text)
			}
			if got := tt.text.FindAllString(r.stderr, -1); len(got) > 1 {
				t.Errorf("told more than once: %q", got)
			}
			rep := r.report(t)
			if !tt.text.MatchString(strings.Join(rep.Notes, "\n")) {
				t.Errorf("notes %q have no %s", rep.Notes, tt.text)
			}
			for host := range rep.Hosts {
				if !strings.HasPrefix(rep.DiagMessages[host], "job killed: "+tt.name+" ") {
					t.Errorf("diag_messages %v", rep.DiagMessages)
				}
			}
		})
	}
}

// members returns the processes in the node's jobs.
func (n *node) members() []string {
	var pids []string
	for _, procs := range n.jobDirs() {
		b, _ := os.ReadFile(procs)
		pids = append(pids, strings.Fields(string(b))...)
	}
	slices.Sort(pids)
	return slices.Compact(pids) // each is in several hierarchies
}

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
