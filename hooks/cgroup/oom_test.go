package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// TestOOMKillsAreWordedWithinBounds reports all kills at once, at the end of a job.
func TestOOMKillsAreWordedWithinBounds(t *testing.T) {
	logged := func(n int) (list []oomKill) {
		for i := range n {
			list = append(list, oomKill{seq: uint64(i + 1), pid: i, line: fmt.Sprintf("Killed process %d (a)", i)})
		}
		return list
	}
	lines := func(from, to int) (list []string) {
		for i := from; i < to; i++ {
			list = append(list, fmt.Sprintf("Cgroup mem limit exceeded: Killed process %d (a)", i))
		}
		return list
	}
	global := oomKill{line: "Killed process 7 (b)", global: true}
	one := ptr(int64(1))
	limited := cgroup.Usage{MemLimit: ptr(64 * mib)}
	tests := []struct {
		name    string
		u       cgroup.Usage
		kills   int64
		records []oomKill
		diag    string
		stderr  []string
	}{
		{"one", limited, 1, logged(1), "Cgroup mem limit exceeded", lines(0, 1)},
		{"several", limited, 3, logged(3), "Cgroup mem limit exceeded", lines(0, 3)},
		{"more than lines", limited, 20, logged(20), "Cgroup mem limit exceeded",
			append(lines(0, 8), "Cgroup mem limit exceeded: and 12 more of the job's processes")},
		{"more than the log has", limited, 3, logged(1), "Cgroup mem limit exceeded",
			append(lines(0, 1), "Cgroup mem limit exceeded: and 2 more of the job's processes")},
		{"an earlier run's as well", limited, 1, logged(3), "Cgroup mem limit exceeded", lines(2, 3)},
		{"none in the log", limited, 2, nil, "Cgroup mem limit exceeded",
			[]string{"Cgroup mem limit exceeded: the kernel killed 2 of the job's processes (limit 65536kb)"}},
		{"none in the log, no limit", cgroup.Usage{}, 2, nil, "Cgroup mem limit exceeded",
			[]string{"Cgroup mem limit exceeded: the kernel killed 2 of the job's processes"}},
		{"the host", cgroup.Usage{}, 1, []oomKill{global}, "Host memory exhausted",
			[]string{"Host memory exhausted: Killed process 7 (b)"}},
		{"all jobs", limited, 1, []oomKill{{line: "Killed process 7 (b)", parent: true}},
			"Cgroup mem limit of all jobs exceeded",
			[]string{"Cgroup mem limit of all jobs exceeded: Killed process 7 (b)"}},
		{"a limit that its owner has set", limited, 1, []oomKill{{line: "Killed process 7 (b)", inside: true}},
			"Cgroup mem limit inside the job exceeded",
			[]string{"Cgroup mem limit inside the job exceeded: Killed process 7 (b)"}},
		{"none in the log, its own limit not hit",
			cgroup.Usage{MemLimit: ptr(64 * mib), MemFailcnt: ptr(int64(0))}, 1, nil,
			"Memory of all jobs or of the host exhausted",
			[]string{"Memory of all jobs or of the host exhausted: the kernel killed 1 of the job's processes"}},
		{"the host and the limit", limited, 2, append(logged(1), global),
			"Cgroup mem limit exceeded, Host memory exhausted",
			[]string{"Cgroup mem limit exceeded: Killed process 0 (a)", "Host memory exhausted: Killed process 7 (b)"}},
		{"all of the cgroup", limited, 3,
			[]oomKill{logged(2)[0], logged(2)[1], {seq: 3, pid: 0, line: "Killed process 0 (a)", again: true}},
			"Cgroup mem limit exceeded", lines(0, 2)},
		{"swap", cgroup.Usage{MemLimit: ptr(64 * mib), MemSwapLimit: ptr(96 * mib), MemSwapFailcnt: one}, 1, logged(1),
			"Cgroup memsw limit exceeded",
			[]string{"Cgroup memsw limit exceeded: Killed process 0 (a)"}},
		{"both limits are one", cgroup.Usage{MemLimit: ptr(64 * mib), MemSwapLimit: ptr(64 * mib), MemSwapFailcnt: one},
			1, logged(1), "Cgroup mem limit exceeded", lines(0, 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.u.OOMKills = &tt.kills
			var report oomReport
			report.add(tt.u, tt.records, true)
			must.Equal(t, "", tt.stderr, report.Lines)
			if got := strings.Join(report.reasons(), ", "); got != tt.diag || report.Kills != tt.kills {
				t.Errorf("diag %q, %d kills reported, want %q, %d", got, report.Kills, tt.diag, tt.kills)
			}
		})
	}
}

// Kills that are reported one after the other each have different words, and words are never
// changed later. A job whose processes are killed again and again does not fill its standard error.
func TestOOMGoesOn(t *testing.T) {
	type step struct {
		kills   int64
		records []oomKill // those not reported before
		last    bool
	}
	log := func(from, to uint64, line string) (list []oomKill) {
		for seq := from; seq <= to; seq++ {
			list = append(list, oomKill{seq: seq, line: line})
		}
		return list
	}
	const mem = "Cgroup mem limit exceeded: "
	repeated := []string{mem + "x"}
	for i := 1; i < oomLines; i++ {
		repeated = append(repeated, fmt.Sprintf(mem+"x [kill %d]", i+1))
	}
	for _, tt := range []struct {
		name  string
		steps []step
		want  []string
	}{
		{"nothing new", []step{{1, log(1, 1, "x"), false}, {1, nil, true}}, []string{mem + "x"}},
		{"the same words of two kills", []step{{1, log(1, 1, "x"), false}, {2, log(2, 2, "x"), true}},
			[]string{mem + "x", mem + "x [kill 2]"}},
		{"a kill that the log has later", []step{{1, nil, false}, {2, log(1, 2, "x"), false}, {2, nil, true}},
			[]string{mem + "the kernel killed 1 of the job's processes", mem + "x"}},
		{"never in the log", []step{{1, nil, false}, {3, nil, false}, {4, nil, false}, {5, nil, true}}, []string{
			mem + "the kernel killed 1 of the job's processes", mem + "and 2 more of the job's processes",
			mem + "and 1 more of the job's processes", mem + "and 1 more of the job's processes [kill 5]"}},
		{"many", []step{{5, log(1, 5, "x"), false}, {20, log(6, 20, "x"), false}, {30, log(9, 30, "x"), false},
			{30, log(9, 30, "x"), true}},
			append(repeated, mem+"and 22 more of the job's processes")},
		{"many, and the log has none", []step{{20, log(1, 20, "x"), false}, {50, nil, false}, {50, nil, true}},
			append(repeated, mem+"and 42 more of the job's processes")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var report oomReport
			for _, s := range tt.steps {
				before := slices.Clone(report.Lines)
				if report.add(cgroup.Usage{OOMKills: &s.kills}, s.records, s.last); !slices.Equal(before,
					report.Lines[:len(before)]) {
					t.Errorf("%q became %q", before, report.Lines)
				}
			}
			must.Equal(t, "", tt.want, report.Lines)
		})
	}
}

// A kill is recorded immediately, before the kernel's log loses it. Periodic, a restarted hook and
// the epilogue report it in the same words.
func TestOOMIsRecordedAtOnceAndReportedInTheSameWords(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		const kills = 1
		group := n.tree.Mode() == cgroup.ModeV2
		n.begin("1.srv")
		pid := n.launch("1.srv")
		n.kmsg = func() (io.ReadCloser, error) {
			r := records{ // for the last two, of memory.oom.group, the kernel counts the process twice
				fmt.Sprintf("6,1,%d,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),"+
					"task_memcg=%s,task=job,pid=%d,uid=0\n", sinceBoot(), n.cgroup("1.srv").MemoryPath(), pid),
				fmt.Sprintf("3,2,%d,-;Memory cgroup out of memory: Killed process %d (job) total-vm:1kB\n", sinceBoot(),
					pid),
				fmt.Sprintf("3,3,%d,-;Tasks in %s are going to be killed due to memory.oom.group set\n", sinceBoot(),
					n.cgroup("1.srv").MemoryPath()),
				fmt.Sprintf("3,4,%d,-;Memory cgroup out of memory: Killed process %d (job) total-vm:1kB\n", sinceBoot(),
					pid),
			}
			if !group {
				r = r[:2]
			}
			return io.NopCloser(&r), nil
		}
		if killed := k.Charge(pid, kernfstest.Memory{Anon: 65 * mib}); len(killed) != 1 {
			t.Fatalf("killed %v", killed)
		}
		line := fmt.Sprintf("Cgroup mem limit exceeded: Killed process %d (job) total-vm:1kB", pid)
		n.recorded("1.srv", kills)
		n.kmsg = func() (io.ReadCloser, error) { return io.NopCloser(&records{}), nil }
		for range 2 {
			got := n.report("1.srv")
			if *got.Usage.OOMKills != kills || got.ResourcesUsed["mem"] == "" ||
				got.Diag != "Cgroup mem limit exceeded" || !cmp.Equal(got.JobStderr, []string{line}) ||
				!cmp.Equal(got.Notes, []string{line}) {
				t.Errorf("periodic: %+v, %+v", got, got.Usage)
			}
			n.restart()
		}
		out := n.do(hostapi.EventEpilogue, "1.srv")
		if out.Diag != "Cgroup mem limit exceeded" || !cmp.Equal(out.JobStderr, []string{line}) ||
			!cmp.Equal(out.Notes, []string{line}) {
			t.Errorf("%+v", out)
		}
		if out := n.do(hostapi.EventEnd, "1.srv"); out.Diag != "" || out.JobStderr != nil {
			t.Errorf("end: %+v", out)
		}
	})
}

// Kills that the kernel leaves out of its log follow each other quickly, and are reported together.
func TestOOMKillsWithoutALineAreReportedTogether(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		killed := make(chan struct{})
		all := sync.OnceFunc(func() { close(killed) })
		defer all()
		n.kmsg = func() (io.ReadCloser, error) { <-killed; return noKmsg() } // as if the kills came at once
		n.begin("1.srv", asks("ncpus=1", "mem=64mb", "oom_group=false"))
		pids := []int{n.launch("1.srv"), n.launch("1.srv"), n.launch("1.srv")}
		for _, pid := range pids {
			if killed := k.Charge(pid, kernfstest.Memory{Anon: 65 * mib}); len(killed) != 1 {
				t.Fatalf("killed %v", killed)
			}
		}
		all()
		n.recorded("1.srv", 3)
		want := []string{"Cgroup mem limit exceeded: the kernel killed 3 of the job's processes (limit 65536kb)"}
		if got := n.report("1.srv"); !cmp.Equal(got.JobStderr, want) || *got.Usage.OOMKills != 3 {
			t.Errorf("periodic: %q of %d kills, want %q", got.JobStderr, *got.Usage.OOMKills, want)
		}
		if out := n.do(hostapi.EventEpilogue, "1.srv"); !cmp.Equal(out.JobStderr, want) {
			t.Errorf("epilogue: %q, want %q", out.JobStderr, want)
		}
	})
}

// A job whose programs are killed again and again does not fill the log. Its epilogue reports all
// kills.
func TestKillsAreLoggedWithinBounds(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		logger, entries := test.NewNullLogger()
		n.log = logrus.NewEntry(logger)
		n.begin("1.srv", asks("ncpus=1", "mem=64mb", "oom_group=false"))
		const kills = 3 * oomLines
		for i := range kills {
			k.Charge(n.launch("1.srv"), kernfstest.Memory{Anon: 65 * mib})
			n.recorded("1.srv", int64(min(i+1, oomLines)))
		}
		out := n.do(hostapi.EventEpilogue, "1.srv")
		logged := len(entries.AllEntries())
		if *out.Usage.OOMKills != kills || logged < oomLines || logged > oomLines+2 {
			t.Errorf("%d lines about %d kills", logged, *out.Usage.OOMKills)
		}
	})
}

// recorded waits until the job's cgroup has a record of so many kills.
func (n *node) recorded(id string, kills int64) {
	n.t.Helper()
	must.Eventually(n.t, "the kills are recorded", func() bool { return n.oomReport(n.cgroup(id)).Kills >= kills })
}
