package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/devfilter"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/nodestate"
)

// finding is one thing that doctor looked at.
type finding struct {
	What   string `json:"what"`
	Status string `json:"status"` // ok, degraded, impossible or unknown
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"` // the command, kernel option or key that mends it
	// Blocks: a configured hook cannot work because of it.
	Blocks bool `json:"blocks,omitempty"`
}

// The statuses of a finding: it works, or is off as configured; it works in a lesser way; it does not work on this node; it
// shows only once there is a cgroup of hookhost's.
const (
	statusOK         = "ok"
	statusDegraded   = "degraded"
	statusImpossible = "impossible"
	statusUnknown    = "unknown"
)

func ok(what, found string) finding { return finding{What: what, Status: statusOK, Found: found} }

func degraded(what, found, advice string) finding {
	return finding{What: what, Status: statusDegraded, Found: found, Advice: advice}
}

func impossible(what, found, advice string) finding {
	return finding{What: what, Status: statusImpossible, Found: found, Advice: advice}
}

func unknown(what string) finding {
	return finding{What: what, Status: statusUnknown, Found: "shows once the daemon or a job has run", Advice: "start the daemon, or 'hookhost run -- true', and look again"}
}

// blocking is impossible where something is configured that needs it.
func blocking(what, found, advice string) finding {
	f := impossible(what, found, advice)
	f.Blocks = true
	return f
}

func (c *cli) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor [--json]", Short: "Tell what this node can enforce, what not, why, and what to do about it", Args: noArgs,
		Long: `Look at the node and its configuration. Nothing is changed. Each thing is ok, degraded (it works in a lesser way), impossible
here or unknown (as long as neither the daemon nor a job has run); what the configuration turns off is said to be off. The arrow says what mends it. Exit status 1 when a configured hook cannot work.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.settings(c.named)
			if err != nil {
				return err
			}
			findings := c.examine(cmd.Context(), s)
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"findings": findings})
			} else {
				err = writeFindings(cmd.OutOrStdout(), findings)
			}
			if err != nil {
				return err
			}
			if slices.ContainsFunc(findings, func(f finding) bool { return f.Blocks }) {
				return &exitError{status: 1}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

// examine looks at everything. What is found on the way to one thing does not keep it from the others.
func (c *cli) examine(ctx context.Context, s settings) []finding {
	cfg, daemon := s.file, c.askDaemon(ctx)
	may := readRights(daemon.info.PID)
	findings := examineRights(may)
	roots, err := kernfs.OpenRoots()
	if err != nil {
		return append(findings, blocking("kernel files", err.Error(), "mount /proc, /sys and /sys/fs/cgroup"))
	}
	k, err := lookAt(roots, cfg)
	if err != nil {
		findings = append(findings, blocking("cgroups", err.Error(), "mount cgroup v2 (mount -t cgroup2 none /sys/fs/cgroup), or the v1 controllers memory, cpuset, cpu, cpuacct and pids"))
	} else {
		findings = append(findings, k.examineCgroups(cgroupNamespace())...)
		findings = append(findings, k.examineFeatures()...)
		findings = append(findings, k.examineMemory()...)
		findings = append(findings, k.examineDeviceFilter(devfilter.Probe))
		findings = append(findings, k.examineSettings(systemdRuns())...)
		findings = append(findings, k.examineWalltime()...)
		if f, odd := examineRlimits(may, cfg, k.tree.Has("memsw")); odd {
			findings = append(findings, f)
		}
	}
	findings = append(findings, examineSystemd(ctx, cfg, roots)...)
	findings = append(findings, examineTopology(cfg, roots)...)
	findings = append(findings, examineCalls(probeCalls())...)
	findings = append(findings, examineClock(roots.Proc), examineKernelLog())
	findings = append(findings, examineState(c.state))
	if k != nil {
		findings = append(findings, examineElsewhere(k.tree, nodestate.Dir(c.state))...)
	}
	findings = append(findings, c.examineInventory(cfg)...)
	findings = append(findings, c.examineHooks(cfg)...)
	findings = append(findings, c.examineSisters(cfg, daemon, time.Now())...)
	findings = append(findings, c.examineOpenPBS(cfg)...)
	findings = append(findings, examineVntype(cfg)...)
	findings = append(findings, examineFromPBS(s)...)
	return append(findings, c.examineDaemon(daemon)...)
}

// Columns of the text: 100 in all.
const (
	statusWidth = 11
	whatWidth   = 23
	foundWidth  = 100 - statusWidth - whatWidth
)

func writeFindings(w io.Writer, findings []finding) error {
	for _, f := range findings {
		status, what := f.Status, f.What
		rows := wrap(f.Found, foundWidth)
		if f.Advice != "" {
			for i, row := range wrap(f.Advice, foundWidth-2) {
				arrow := "  "
				if i == 0 {
					arrow = "→ "
				}
				rows = append(rows, arrow+row)
			}
		}
		for _, row := range rows {
			line := strings.TrimRight(fmt.Sprintf("%-*s%-*s%s", statusWidth, status, whatWidth, what, row), " ")
			if len(what) >= whatWidth { // a hook's name may be long
				line = fmt.Sprintf("%-*s%s\n%s", statusWidth, status, what, strings.Repeat(" ", statusWidth+whatWidth)+row)
			}
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
			status, what = "", ""
		}
	}
	return nil
}

// wrap breaks text between words into rows of at most width bytes; a longer word gets a row of its own.
func wrap(text string, width int) []string {
	var rows []string
	row := ""
	for _, word := range strings.Fields(text) {
		if row != "" && len(row)+1+len(word) > width {
			rows, row = append(rows, row), ""
		}
		if row != "" {
			row += " "
		}
		row += word
	}
	return append(rows, row)
}
