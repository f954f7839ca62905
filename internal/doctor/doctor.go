// Package doctor examines which parts of its configuration a node can enforce, and reports
// problems. It changes nothing. Each file has the findings about one subject.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/cgroups/v3"
	"github.com/prometheus/procfs"

	"github.com/hookhost/hookhost/internal/devfilter"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/settings"
	"github.com/hookhost/hookhost/internal/systemd"
)

// Finding is the answer to one question about the node.
type Finding struct {
	What   string `json:"what"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"` // the command, kernel option or key that fixes it
	// Blocks means that a configured hook cannot work because of it.
	Blocks bool `json:"blocks,omitempty"`
}

// Status is how well something works on the node.
type Status string

// The statuses of a finding.
const (
	OK         Status = "ok" // works, or is off as configured
	Degraded   Status = "degraded"
	Impossible Status = "impossible"
	Unknown    Status = "unknown" // known only once hookhost has a cgroup, or only to root
)

// Node describes the node to Examine.
type Node struct {
	Settings settings.Settings
	Config   string // the node's own configuration file
	State    string // the state directory
	Socket   string // of the daemon
	StandIn  string // the program that may replace pbs_python

	Hooks func() (*plugin.Registry, error) // the hooks registered on this node
}

// severity orders findings: what blocks a hook comes first, and what is ok comes last.
func (f Finding) severity() int {
	if f.Blocks {
		return 0
	}
	return 1 + slices.Index([]Status{Impossible, Degraded, Unknown, OK}, f.Status)
}

// ByProblem returns the findings with the problems first, beginning with the worst ones. Otherwise
// their order stays.
func ByProblem(findings []Finding) []Finding {
	return slices.SortedStableFunc(slices.Values(findings), func(a, b Finding) int {
		return cmp.Compare(a.severity(), b.severity())
	})
}

// Summary returns a sentence that counts the findings.
func Summary(findings []Finding) string {
	if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Status != OK }) {
		return fmt.Sprintf("All %d checks are ok.", len(findings))
	}
	var count [5]int
	for _, f := range findings {
		count[f.severity()]++
	}
	var parts []string
	for i, what := range []string{"blocking a configured hook", "impossible", "degraded", "unknown", "ok"} {
		if count[i] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[i], what))
		}
	}
	return fmt.Sprintf("%d checks: %s.", len(findings), strings.Join(parts, ", "))
}

func ok(what, found string) Finding { return Finding{What: what, Status: OK, Found: found} }

func degraded(what, found, advice string) Finding {
	return Finding{What: what, Status: Degraded, Found: found, Advice: advice}
}

func impossible(what, found, advice string) Finding {
	return Finding{What: what, Status: Impossible, Found: found, Advice: advice}
}

func unknown(what string) Finding {
	return Finding{What: what, Status: Unknown, Found: "not known until the daemon or a job has run",
		Advice: "start the daemon and run doctor again"}
}

// unknownToUsers is unknown because only root can try it.
func unknownToUsers(what string) Finding {
	return Finding{What: what, Status: Unknown, Found: "not known: only root can check it",
		Advice: "run doctor as root"}
}

// blocking is impossible for something that the configuration needs.
func blocking(what, found, advice string) Finding {
	f := impossible(what, found, advice)
	f.Blocks = true
	return f
}

// Examine returns the findings of a node in the order in which people read them. If an examination
// fails, that is also a finding, and the others continue.
func Examine(ctx context.Context, n *Node) []Finding {
	d := askDaemon(ctx, n.Socket)
	findings := examineKernel(ctx, n, d)
	findings = append(findings, examineKernelLog(), examineState(n.State))
	findings = append(findings, examineOffline(n.State)...)
	findings = append(findings, n.examineHooks()...)
	findings = append(findings, examineContainers(n.Settings.File)...)
	findings = append(findings, examineDelivery(n.Settings.File.Reports)...)
	findings = append(findings, d.examineRefused()...)
	findings = append(findings, n.examineOpenPBS(d.info.Hooks)...)
	findings = append(findings, n.examineVntype()...)
	findings = append(findings, n.examineFromPBS()...)
	findings = append(findings, examineLogins(ctx, n.Settings.File.PAM)...)
	findings = append(findings, examineServices(os.DirFS("/"), mayLinger(ctx))...)
	return append(findings, d.examine(n.Socket)...)
}

// examineKernel returns the findings from the kernel's files.
func examineKernel(ctx context.Context, n *Node, d daemon) []Finding {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return []Finding{blocking("kernel files", err.Error(), "mount /proc")}
	}
	may := readRights(proc, d.info.PID)
	findings := may.examine()
	roots, err := kernfs.OpenRoots()
	if err != nil {
		return append(findings, blocking("kernel files", err.Error(), "mount /proc, /sys and /sys/fs/cgroup"))
	}
	s := systemd.New(systemd.Run, time.Duration(n.Settings.File.Cgroup.SystemdWait))
	k, err := openKernel(roots, proc, n.Settings.File, s.Running())
	if err != nil {
		findings = append(findings, withoutCgroups(err, cgroups.Mode()))
	} else {
		findings = append(findings, k.examineCgroups(cgroupNamespace())...)
		findings = append(findings, k.examineFeatures()...)
		findings = append(findings, k.examineMemory()...)
		findings = append(findings, k.examineDeviceFilter(may, devfilter.Probe))
		findings = append(findings, k.examineSettings()...)
		findings = append(findings, k.examineWalltime()...)
		findings = append(findings, k.examinePrivate(proc, may)...)
		findings = append(findings, k.examineEnergy()...)
		findings = append(findings, k.examineUnprotected()...)
	}
	findings = append(findings, readUnit(ctx, s, n.Settings.File, roots.Cgroup).examine()...)
	findings = append(findings, examineTopology(n.Settings.File, roots)...)
	findings = append(findings, examinePidfd(probePidfd()))
	return append(findings, n.examineInventory(k)...)
}
