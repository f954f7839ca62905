package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/topology"
)

// finding is one thing that doctor looked at.
type finding struct {
	What   string `json:"what"`
	Status string `json:"status"` // ok, warning or failed
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// The statuses of a finding. A warning is something that works in a lesser way; failed means that a configured
// hook cannot work.
const (
	statusOK      = "ok"
	statusWarning = "warning"
	statusFailed  = "failed"
)

func (c *cli) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor [--json]", Short: "Tell what this node can enforce, what not, why, and what to do about it", Args: noArgs,
		Long: "Look at the node and its configuration. Nothing is changed. Exit status 1 when a configured hook cannot work.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			findings := c.examine(cmd.Context(), cfg)
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"findings": findings})
			} else {
				err = writeFindings(cmd.OutOrStdout(), findings)
			}
			if err != nil {
				return err
			}
			for _, f := range findings {
				if f.Status == statusFailed {
					return &exitError{status: 1}
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

func writeFindings(w io.Writer, findings []finding) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, f := range findings {
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Status, f.What, f.Found)
		if f.Advice != "" {
			fmt.Fprintf(t, "\t\t→ %s\n", f.Advice)
		}
	}
	return t.Flush()
}

func (c *cli) examine(ctx context.Context, cfg *config.File) []finding {
	findings := []finding{examineUser()}
	roots, err := kernfs.OpenRoots()
	if err != nil {
		return append(findings, finding{"kernel files", statusFailed, err.Error(), "mount /proc, /sys and /sys/fs/cgroup"})
	}
	findings = append(findings, examineCgroups(cfg, roots)...)
	findings = append(findings, examineTopology(cfg, roots)...)
	findings = append(findings, examineKernelLog())
	findings = append(findings, c.examineHooks(cfg)...)
	return append(findings, c.examineDaemon(ctx)...)
}

func examineUser() finding {
	if os.Geteuid() != 0 {
		return finding{"user", statusWarning, fmt.Sprintf("uid %d", os.Geteuid()), "some of what follows may look different to root, who runs the daemon"}
	}
	return finding{"user", statusOK, "root", ""}
}

func examineCgroups(cfg *config.File, roots kernfs.Roots) []finding {
	tree, err := detectIn(roots, cfg)
	if err != nil {
		return []finding{{"cgroups", statusFailed, err.Error(), "mount cgroup v2, or the v1 controllers memory, cpuset, cpu, cpuacct and pids"}}
	}
	findings := []finding{{"cgroups", statusOK, tree.Mode().String(), ""}}
	for _, want := range []struct {
		controller string
		configured bool
		section    string
		does       string
	}{
		{"memory", cfg.Memory.Enabled, "[memory]", "mem is enforced by the kernel"},
		{"cpuset", cfg.Cpuset.Enabled, "[cpuset]", "jobs have cpus of their own"},
		{"cpu", cfg.CPU.Enabled, "[cpu]", "cpu time is shared by ncpus"},
		{"pids", cfg.Pids.Enabled && cfg.Pids.Max > 0, "[pids]", "the number of tasks is bounded"},
	} {
		f := finding{What: want.controller + " controller", Status: statusOK, Found: want.does}
		if !tree.Has(want.controller) {
			f.Status, f.Found, f.Advice = statusWarning, "not there", ""
			if want.configured {
				f.Status = statusFailed
				f.Advice = fmt.Sprintf("enable it in the kernel (cgroup_enable=%s), or set enabled = false in %s", want.controller, want.section)
			}
		}
		findings = append(findings, f)
	}
	for _, feature := range []struct{ name, what, yes, no, advice string }{
		{"memsw", "swap accounting", "vmem is enforced by the kernel", "vmem is not enforced", "boot with swapaccount=1"},
		{"kill", "cgroup.kill", "a job of any size is killed in one step", "jobs are killed process by process", "Linux 5.14 or newer, with a cgroup v2 tree mounted beside v1"},
		{"freeze", "freezer", "jobs are frozen in one step", "jobs are frozen by the v1 freezer, or not at all", "mount a cgroup v2 tree"},
	} {
		f := finding{What: feature.what, Status: statusOK, Found: feature.yes}
		switch {
		case tree.Has(feature.name):
		case !tree.Prepared(): // files of v2 are seen below its root only
			f.Found = "shows once the daemon or a job has run"
		default:
			f.Status, f.Found, f.Advice = statusWarning, feature.no, feature.advice
		}
		findings = append(findings, f)
	}
	return findings
}

func examineTopology(cfg *config.File, roots kernfs.Roots) []finding {
	node, err := topology.Scan(roots)
	if err != nil {
		return []finding{{"topology", statusFailed, err.Error(), ""}}
	}
	exclude, _ := kernfs.ParseIDSet(cfg.Cpuset.ExcludeCPUs) // checked when it was loaded
	f := finding{"cpus", statusOK, fmt.Sprintf("%s (%d NUMA nodes); for jobs: %s", node.Online, len(node.NUMA), node.Online.Minus(exclude)), ""}
	if node.Online.Minus(exclude).IsEmpty() {
		f.Status, f.Advice = statusFailed, "cpuset.exclude_cpus leaves no cpu for jobs"
	}
	return []finding{f, {"memory", statusOK, pbs.Size(node.MemTotal).KB() + ", swap " + pbs.Size(node.SwapTotal).KB(), ""}}
}

func examineKernelLog() finding {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return finding{"kernel log", statusWarning, "/dev/kmsg: " + err.Error(), "reports of OOM kills will not name the process; give the daemon CAP_SYSLOG"}
	}
	unix.Close(fd)
	return finding{"kernel log", statusOK, "reports of OOM kills name the process", ""}
}

func (c *cli) examineHooks(cfg *config.File) []finding {
	var findings []finding
	r, err := c.registry(cfg)
	if err != nil {
		return []finding{{"hooks", statusFailed, err.Error(), ""}}
	}
	hooks, err := r.List()
	if err != nil {
		findings = append(findings, finding{"hooks", statusFailed, err.Error(), "correct or delete the file"})
	}
	for _, h := range hooks {
		f := finding{What: "hook " + h.Name, Status: statusOK, Found: h.Program}
		if !h.Enabled {
			f.Found = "not enabled"
		} else if err := r.CheckProgram(h); err != nil {
			f.Status, f.Found = statusFailed, err.Error()
			f.Advice = "import it: hookhost hook import " + h.Name + " application/x-executable default FILE"
			if h.BuiltIn {
				f.Advice = "install hookhost again: the program is part of it"
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// examineDaemon asks the daemon, where there is one, how its hooks do.
func (c *cli) examineDaemon(ctx context.Context) []finding {
	client, err := api.Dial(c.socket)
	if errors.Is(err, api.ErrNoHost) {
		return []finding{{"daemon", statusWarning, "does not run (" + filepath.Clean(c.socket) + ")", "hookhost serve, or systemctl start hookhost; 'hookhost run' works without"}}
	}
	if err != nil {
		return []finding{{"daemon", statusWarning, err.Error(), ""}}
	}
	defer client.Close()
	info, err := client.Node(ctx)
	if err != nil {
		return []finding{{"daemon", statusFailed, err.Error(), "see its log"}}
	}
	findings := []finding{{"daemon", statusOK, fmt.Sprintf("version %s, pid %d, answers at %s", info.Version, info.PID, c.socket), ""}}
	for _, h := range info.Hooks {
		f := finding{"running hook " + h.Name, statusOK, h.State, ""}
		if h.Error != "" {
			f.Status, f.Found, f.Advice = statusFailed, h.State+": "+h.Error, "see the daemon's log"
		}
		findings = append(findings, f)
	}
	return findings
}
