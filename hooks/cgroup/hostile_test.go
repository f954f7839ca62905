package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// hostile are values that any user can request.
var hostile = []string{
	"", "0", "-1", "1", "2", "1b", "1kb", "1048577b", "4194304", "4194305",
	"2147483647", "2147483648", "5000000000", "1000000gb",
	"4611686018427387904", "4611686018427387904b",
	"9223372036854775807", "9223372036854775807b", "9223372036854775808", "-9223372036854775808",
	"18446744073709551615", "8191pb", "9007199254740991kb", "99999999999999999999999",
	"1e9", "0x10", "NaN", "unlimited", "0:unlimited", "1:9223372036854775807",
	"true", "maybe", "max", "1,2", "1+1", "(", "\n", "\x00", "\u00e9",
	strings.Repeat("9", 70000),
}

// Whatever a job requests, the result is a refusal, a wait or a grant. No job makes a node fail.
func TestHostileAsks(t *testing.T) {
	edits := map[string]func(*config.File){
		"as it comes": nil,
		"all of it": func(c *config.File) {
			c.CPU.EnforcePerPeriodQuota, c.Cpuset.MemFences, c.Cpuset.AllowZeroCPUs = true, true, true
			c.Memory.HighPercent, c.Pids.Max = 90, 1000
		},
		"by rss, without cpusets": func(c *config.File) {
			byRSS(c)
			c.CPU.EnforcePerPeriodQuota, c.Cpuset.Enabled = true, false
		},
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			onFakes(t, edit, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
				for _, resource := range []string{
					"ncpus", "mem", "vmem", "hpmem", "hpmem_2mb", "pmem", "pvmem", "pids", "oom_group",
					"rlimit_nofile", "rlimit_nproc", "rlimit_core", "rlimit_stack",
					"ngpus", "software",
				} {
					for _, value := range hostile {
						n.suffer(t, hostapi.Resources{resource: value}, "")
					}
				}
			})
		})
	}
}

// The same is true of chunks, and of their sums.
func TestHostileChunks(t *testing.T) {
	const most = "9223372036854775807b"
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		for _, chunks := range []string{
			"", "(", "node1", "(node1)", "(node1:ncpus=2147483647)+(node1:ncpus=2147483647)",
			"(node1:mem=" + most + ")+(node1:mem=1kb)",
			"(node1:ncpus=1:mem=" + most + ":vmem=" + most + ")",
			"(node1:ncpus=1:hpmem=" + most + ")+(node1:hpmem=" + most + ")",
			"(node1:ncpus=1:hpmem=" + most + ":hpmem_2mb=" + most + ":hpmem_2048kb=" + most + ")",
			"(node1:ncpus=1:hpmem_" + most + "=1)",
			"(node1:ncpus=-1)", "(node1:ncpus=1:ncpus=2)", "(node1:ncpus=1:mem=1:mem=2)",
			"(node1[99999999999999999999]:ncpus=1)",
			strings.Repeat("(node1:ncpus=1:mem=1kb)+", 5000) + "(node1:ncpus=1)",
			strings.Repeat("(node1:ncpus=0:mem=1kb)+", 5000) + "(node1:ncpus=1)",
			"(node1:ncpus=1)" + strings.Repeat("+(other:ncpus=2147483647:mem="+most+")", 3000),
			strings.Repeat("(", 1<<20),
		} {
			n.suffer(t, hostapi.Resources{"ncpus": "1"}, chunks)
		}
	})
}

// suffer begins, launches and ends a job with this request, and resizes another one to it.
func (n *node) suffer(t *testing.T, resources hostapi.Resources, chunks string) {
	t.Helper()
	what := fmt.Sprintf("%.60q in %.80q", fmt.Sprint(resources), chunks)
	hostile := func(req *hostapi.Request) {
		req.Job.ResourceList, req.Job.ExecVnode = hostapi.Resources{"ncpus": "1"}, chunks
		for name, value := range resources {
			req.Job.ResourceList[name] = value
		}
		delay := 1<<63 - 1
		req.Job.KillDelay = &delay
	}
	fair := func(e hostapi.Event, out *hostapi.Outcome, err error) bool {
		t.Helper()
		kind, text := refusal(out, err)
		if !slices.Contains([]hostapi.Kind{"", kindHeld, hostapi.KindJob, hostapi.KindBusy}, kind) {
			t.Errorf("%s, %s: %s of kind %q", e, what, text, kind)
		}
		return kind == ""
	}
	out, err := n.event(hostapi.EventBegin, "1.srv", hostile)
	if fair(hostapi.EventBegin, out, err) {
		out, err = n.event(hostapi.EventLaunch, "1.srv")
		fair(hostapi.EventLaunch, out, err)
		n.do(hostapi.EventEnd, "1.srv")
	}
	n.do(hostapi.EventBegin, "2.srv")
	out, err = n.event(hostapi.EventResize, "2.srv", hostile)
	fair(hostapi.EventResize, out, err)
	out, err = n.event(hostapi.EventLaunch, "2.srv", hostile)
	fair(hostapi.EventLaunch, out, err)
	n.do(hostapi.EventEnd, "2.srv")
	n.want()
}

// begin knows the kernel's own bounds, so that a launch does not fail because of them.
func TestKernelHostileLimits(t *testing.T) {
	n := realNode(t, nil)
	for _, tt := range []struct {
		ask  string
		kind hostapi.Kind
	}{
		{"rlimit_nofile=5000000000", kindHeld}, {"rlimit_nofile=0:unlimited", kindHeld}, {"rlimit_nofile=64", ""},
		{"pids=5000000000", hostapi.KindJob}, {"pids=4194304", ""}, {"vmem=1kb", hostapi.KindJob},
	} {
		kind, text := refusal(n.event(hostapi.EventBegin, "1.srv", asks("ncpus=1", tt.ask)))
		if kind != tt.kind {
			t.Errorf("%s: %q of kind %q, want %q", tt.ask, text, kind, tt.kind)
		}
		if kind == "" {
			n.do(hostapi.EventEnd, "1.srv")
		}
	}
	n.want()
}

// A value that the kernel can never accept is refused with an explanation, at begin and at resize.
func TestHostileWords(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.do(hostapi.EventBegin, "2.srv")
		for ask, want := range map[string]string{
			"pids=5000000000": "pids requested (5000000000) exceeds the kernel's maximum (4194304)",
			"pids=4194304":    "",
			"vmem=1kb":        "vmem requested (1kb) under minimum possible (1024kb)",
		} {
			for e, id := range map[hostapi.Event]string{hostapi.EventBegin: "1.srv", hostapi.EventResize: "2.srv"} {
				_, err := n.event(e, id, asks("ncpus=1", ask))
				if want == "" && err != nil ||
					want != "" && (hostapi.KindOf(err) != hostapi.KindJob || err.Error() != want) {
					t.Errorf("%s %s: %v of kind %q, want %q", e, ask, err, hostapi.KindOf(err), want)
				}
				if e == hostapi.EventBegin && err == nil {
					n.do(hostapi.EventEnd, id)
				}
			}
		}
		long := asks("ncpus=1", "software="+strings.Repeat("x", 70000))
		for e, id := range map[hostapi.Event]string{hostapi.EventBegin: "1.srv", hostapi.EventResize: "2.srv"} {
			if _, err := n.event(e, id, long); hostapi.KindOf(err) != hostapi.KindJob {
				t.Errorf("%s with more than an attribute holds: %v of kind %q", e, err, hostapi.KindOf(err))
			}
		}
	})
}
