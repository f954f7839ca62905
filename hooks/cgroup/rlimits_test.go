package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
)

func TestRlimitsDecided(t *testing.T) {
	const none = proc.RlimitInfinity
	type limits = map[string]proc.Rlimit
	for _, tt := range []struct {
		name string
		node config.Rlimits
		asks hostapi.Resources
		vmem bool // vmem is enforced
		keep bool // RLIMIT_AS is left alone
		want limits
		err  string
	}{
		{name: "nothing", want: limits{}},
		{name: "the node's", node: config.Rlimits{Nofile: "1024:4096", Core: "0"},
			want: limits{"nofile": {Soft: 1024, Hard: 4096}, "core": {}}},
		{name: "the job's", asks: hostapi.Resources{"rlimit_nofile": "100", "rlimit_stack": "8388608:unlimited",
			"mem": "1gb"},
			want: limits{"nofile": {Soft: 100, Hard: 100}, "stack": {Soft: 8 << 20, Hard: none}}},
		{name: "the job's within the node's", node: config.Rlimits{Nofile: "1024:4096"},
			asks: hostapi.Resources{"rlimit_nofile": "4096"},
			want: limits{"nofile": {Soft: 4096, Hard: 4096}}},
		{name: "the job's beyond the node's", node: config.Rlimits{Nofile: "1024:4096"},
			asks: hostapi.Resources{"rlimit_nofile": "100:unlimited"},
			err:  "rlimit_nofile requested (unlimited) exceeds this host's limit (4096)"},
		{name: "vmem enforced", vmem: true, want: limits{"as": {Soft: none, Hard: none}}},
		{name: "vmem enforced, pvmem", vmem: true, asks: hostapi.Resources{"pvmem": "1gb"},
			want: limits{"as": {Soft: 1 << 30, Hard: 1 << 30}}},
		{name: "pvmem", asks: hostapi.Resources{"pvmem": "1gb"}, want: limits{"as": {Soft: 1 << 30, Hard: 1 << 30}}},
		{name: "pvmem, not managed", vmem: true, keep: true, asks: hostapi.Resources{"pvmem": "1gb"}, want: limits{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := defaultPolicy(t)
			p.Rlimits, p.Memory.ManageRlimitAS = tt.node, !tt.keep
			a, err := askOf(&hostapi.Job{ID: "1.srv", ResourceList: tt.asks}, testNode)
			must.NoError(t, err)
			got, err := p.rlimits(a, tt.vmem)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err || hostapi.KindOf(err) != hostapi.KindJob {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v, -want +got:\n%s", err, diff)
			}
		})
	}
}

// A value that makes no sense fails when the job begins, and is the job's fault.
func TestRlimitsRefusedAtBegin(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV2, nil)
	for ask, want := range map[string]string{
		"rlimit_gold=1": "rlimit_gold: no such limit", "rlimit_nofile=many": `rlimit "many"`,
		"rlimit_nofile=2:1": "the soft limit is above", "pmem=much": "pmem=much",
	} {
		_, err := n.event(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=64mb", ask))
		if err == nil || !strings.Contains(err.Error(), want) || hostapi.KindOf(err) != hostapi.KindJob {
			t.Errorf("%s: %v, want %q", ask, err, want)
		}
	}
	n.want()
}

// A session created by MoM gets the limits before its launch is accepted, and so do attached
// processes. RLIMIT_AS is lifted only if MoM may have set it.
func TestRlimitsOfSessions(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		got := map[int]map[string]proc.Rlimit{}
		n.setRlimits = func(_ *kernfs.FS, id hostapi.ProcessID, limits map[string]proc.Rlimit,
			_ func(string) bool) error {
			if got[id.PID] == nil {
				got[id.PID] = map[string]proc.Rlimit{}
			}
			maps.Copy(got[id.PID], limits)
			return nil
		}
		n.do(hostapi.EventBegin, "1.srv", ownedBy(owner), asks("ncpus=1", "mem=64mb", "rlimit_nofile=100:200"))
		leader := k.Spawn()
		child, attached := fork(t, k, leader), k.Spawn()
		k.SetProcess(attached, kernfstest.Attributes{UID: owner})
		n.do(hostapi.EventLaunch, "1.srv", withPID(leader))
		n.do(hostapi.EventAttach, "1.srv", withPID(attached))
		launch := map[string]proc.Rlimit{"nofile": {Soft: 100, Hard: 200}}
		attach := maps.Clone(launch)
		if n.tree.Has("memsw") {
			launch["as"] = proc.Rlimit{Soft: proc.RlimitInfinity, Hard: proc.RlimitInfinity}
		}
		want := map[int]map[string]proc.Rlimit{leader: launch, child: launch, attached: attach}
		for pid, limits := range want {
			must.Equal(t, fmt.Sprintf("process %d", pid), limits, got[pid])
		}
	})
}

// MoM sets RLIMIT_AS to vmem, and hookhost may lack CAP_SYS_RESOURCE. In that case the job runs
// with the limit.
func TestOwnerIsToldOfAnRLIMIT_ASThatStays(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		if !n.liftsAS() {
			return
		}
		n.setRlimits = func(_ *kernfs.FS, _ hostapi.ProcessID, limits map[string]proc.Rlimit,
			_ func(string) bool) error {
			if limits["as"].Hard == proc.RlimitInfinity {
				return unix.EPERM
			}
			return nil
		}
		n.do(hostapi.EventBegin, "1.srv", ownedBy(owner), asks("ncpus=1", "mem=64mb"))
		out := n.do(hostapi.EventLaunch, "1.srv", withPID(k.Spawn()))
		must.Equal(t, "lines", []string{asStays}, out.JobStderr)
	})
}

// A job cannot raise limits of the programs that MoM starts by requesting it: the request is text
// from its user.
func TestLimitIsRaisedByTheNodeAlone(t *testing.T) {
	n := realNode(t, func(c *config.File) { c.Rlimits.Nofile = "256:256" })
	n.do(hostapi.EventBegin, "1.srv", ownedBy(os.Getuid()),
		asks("ncpus=1", "mem=64mb", "rlimit_core=unlimited", "rlimit_memlock=4096", "rlimit_nofile=256"))
	pid := startActor(t, nil, "sleep").child.PID
	for resource, l := range map[int]unix.Rlimit{unix.RLIMIT_CORE: {Cur: 0, Max: 4096},
		unix.RLIMIT_MEMLOCK: {Cur: 8192, Max: 8192}, unix.RLIMIT_NOFILE: {Cur: 64, Max: 256}} {
		must.NoError(t, unix.Prlimit(pid, resource, &l, nil))
	}
	n.do(hostapi.EventLaunch, "1.srv", withPID(pid))
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	must.NoError(t, err)
	for _, line := range []string{`Max core file size +4096 +4096 `, `Max locked memory +4096 +4096 `,
		`Max open files +256 +256 `} {
		if !regexp.MustCompile(line).Match(text) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	for name, want := range map[string]bool{"nofile": true, "core": false, "memlock": false, "as": n.liftsAS()} {
		if n.raises(name) != want {
			t.Errorf("raises %s: %v, want %v", name, !want, want)
		}
	}
}

// The same on the running kernel.
func TestKernelRlimits(t *testing.T) {
	n := realNode(t, func(c *config.File) { c.Rlimits.Core = "0" })
	n.do(hostapi.EventBegin, "1.srv", ownedBy(os.Getuid()), asks("ncpus=1", "mem=64mb", "rlimit_nofile=100:200"))
	for _, event := range []hostapi.Event{hostapi.EventLaunch, hostapi.EventAttach} {
		pid := startActor(t, nil, "sleep").child.PID
		n.do(event, "1.srv", withPID(pid))
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
		must.NoError(t, err)
		for _, line := range []string{`Max open files +100 +200 `, `Max core file size +0 +0 `} {
			if !regexp.MustCompile(line).Match(text) {
				t.Errorf("%s: no line %q in\n%s", event, line, text)
			}
		}
	}
}
