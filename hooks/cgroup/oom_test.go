package main

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

func TestDescribeOOM(t *testing.T) {
	logged := func(n int) (list []oomKill) {
		for i := range n {
			list = append(list, oomKill{pid: i, line: fmt.Sprintf("Killed process %d (a)", i)})
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
		{"more than lines", limited, 20, logged(20), "Cgroup mem limit exceeded", append(lines(0, 8), "Cgroup mem limit exceeded: and 12 more of the job's processes")},
		{"more than the log has", limited, 3, logged(1), "Cgroup mem limit exceeded", append(lines(0, 1), "Cgroup mem limit exceeded: and 2 more of the job's processes")},
		{"an earlier run's as well", limited, 1, logged(3), "Cgroup mem limit exceeded", lines(2, 3)},
		{"none in the log", limited, 2, nil, "Cgroup mem limit exceeded", []string{"Cgroup mem limit exceeded: the kernel killed 2 of the job's processes (limit 65536kb)"}},
		{"none in the log, no limit", cgroup.Usage{}, 2, nil, "Cgroup mem limit exceeded", []string{"Cgroup mem limit exceeded: the kernel killed 2 of the job's processes"}},
		{"the host", cgroup.Usage{}, 1, []oomKill{global}, "Host memory exhausted", []string{"Host memory exhausted: Killed process 7 (b)"}},
		{"the host and the limit", limited, 2, append(logged(1), global), "Cgroup mem limit exceeded, Host memory exhausted",
			[]string{"Cgroup mem limit exceeded: Killed process 0 (a)", "Host memory exhausted: Killed process 7 (b)"}},
		{"swap", cgroup.Usage{MemLimit: ptr(64 * mib), MemSwapLimit: ptr(96 * mib), MemSwapFailcnt: one}, 1, logged(1), "Cgroup memsw limit exceeded",
			[]string{"Cgroup memsw limit exceeded: Killed process 0 (a)"}},
		{"both limits are one", cgroup.Usage{MemLimit: ptr(64 * mib), MemSwapLimit: ptr(64 * mib), MemSwapFailcnt: one}, 1, logged(1), "Cgroup mem limit exceeded", lines(0, 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.u.OOMKills = &tt.kills
			out := &hostapi.Outcome{}
			describeOOM(out, tt.u, tt.records)
			if diff := cmp.Diff(&hostapi.Outcome{Diag: tt.diag, JobStderr: tt.stderr, Notes: tt.stderr}, out); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Kills are told once, by the epilogue, whatever the kernel's log says.
func TestOOM(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.begin("1.srv")
		pid := n.launch("1.srv")
		if killed := k.Charge(pid, kernfstest.Memory{Anon: 65 * mib}); len(killed) != 1 {
			t.Fatalf("killed %v", killed)
		}
		n.kmsg = func() (kmsgReader, error) {
			r := records{
				fmt.Sprintf("6,1,%d,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=%s,task=job,pid=%d,uid=0\n", sinceBoot(), n.cgroup("1.srv").MemoryPath(), pid),
				fmt.Sprintf("3,2,%d,-;Memory cgroup out of memory: Killed process %d (job) total-vm:1kB\n", sinceBoot(), pid),
			}
			return emptyKmsg{&r}, nil
		}
		if out := n.do(hostapi.EventPeriodic, ""); *out.Jobs["1.srv"].Usage.OOMKills != 1 {
			t.Errorf("periodic: %+v", out.Jobs["1.srv"].Usage)
		}
		out := n.do(hostapi.EventEpilogue, "1.srv")
		line := fmt.Sprintf("Cgroup mem limit exceeded: Killed process %d (job) total-vm:1kB", pid)
		if out.Diag != "Cgroup mem limit exceeded" || !cmp.Equal(out.JobStderr, []string{line}) || !cmp.Equal(out.Notes, []string{line}) {
			t.Errorf("%+v", out)
		}
		if out := n.do(hostapi.EventEnd, "1.srv"); out.Diag != "" || out.JobStderr != nil {
			t.Errorf("end: %+v", out)
		}
	})
}
