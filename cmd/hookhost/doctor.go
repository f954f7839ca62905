package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/doctor"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/settings"
)

func (c *cli) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [--json]",
		Short: "Check what this node can enforce, and how to fix the rest",
		Args:  noArgs,
		Long: `Examine the node and its configuration, without changing anything. The first
line counts the findings, and problems come first. Each item is ok, degraded
(works with restrictions), impossible here, or unknown (until the daemon or a
job has run, or to users other than root). An arrow marks the remedy.

Exit status: 0; 1 if a configured hook cannot work. The daemon runs doctor too:
when it starts, after a change of its configuration, when root runs doctor, and
at each exechost_periodic until the exit status is 0. It reports its own result
to PBS: the resource hookhost of this host's vnodes is "ok", or "degraded" with
exit status 1.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.readSettings(c.named)
			if err != nil {
				return err
			}
			node, err := c.examined(s)
			if err != nil {
				return err
			}
			findings := doctor.Examine(cmd.Context(), node)
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"findings": findings})
			} else {
				err = writeFindings(cmd.OutOrStdout(), findings)
			}
			if err != nil {
				return err
			}
			c.requestExamination(cmd.Context())
			if slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.Blocks }) {
				return &exitError{status: 1}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// requestExamination makes the daemon examine the node too, because only its result counts. Users
// may not do that, and the doctor that the daemon runs does not.
func (c *cli) requestExamination(ctx context.Context) {
	if os.Geteuid() != 0 {
		return
	}
	client, err := api.Dial(c.Socket)
	if err != nil {
		return
	}
	defer client.Close()
	if info, err := client.Node(ctx); err == nil && info.PID != os.Getppid() {
		_ = client.Examine(ctx) // a daemon before an upgrade does not have it
	}
}

// examined returns the data about the node that doctor needs.
func (c *cli) examined(s settings.Settings) (*doctor.Node, error) {
	standIn, err := c.Find(standInProgram)
	if err != nil {
		return nil, err
	}
	return &doctor.Node{
		Settings: s, Config: c.Config, State: c.State, Socket: c.Socket, StandIn: standIn,
		Hooks: func() (*plugin.Registry, error) { return c.Registry(s.File) },
	}, nil
}

// Columns of the text: 100 in all, or those of a narrower terminal.
const (
	mostColumns  = 100
	leastColumns = 60
	statusWidth  = 11
	whatWidth    = 23
)

var statusStyles = map[doctor.Status]report.Style{
	doctor.OK: report.Good, doctor.Degraded: report.Warning, doctor.Impossible: report.Bad,
	doctor.Unknown: report.Faint,
}

// writeFindings writes a summary and the findings, the problems first.
func writeFindings(w io.Writer, findings []doctor.Finding) error {
	if _, err := fmt.Fprintln(w, doctor.Summary(findings)); err != nil {
		return err
	}
	columns := mostColumns
	if n := columnsOf(w); n > 0 {
		columns = min(max(n, leastColumns), mostColumns)
	}
	before := doctor.Status("") // a blank line is before the first problem and before what is ok
	for _, f := range doctor.ByProblem(findings) {
		if before == "" || f.Status == doctor.OK && before != doctor.OK {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := writeFinding(w, f, columns); err != nil {
			return err
		}
		before = f.Status
	}
	return nil
}

func writeFinding(w io.Writer, f doctor.Finding, columns int) error {
	width := columns - statusWidth - whatWidth
	rows := wrap(f.Found, width)
	if f.Advice != "" {
		for i, row := range wrap(f.Advice, width-2) {
			arrow := "  "
			if i == 0 {
				arrow = "→ "
			}
			rows = append(rows, arrow+row)
		}
	}
	indent := strings.Repeat(" ", statusWidth+whatWidth)
	text := fmt.Sprintf("%-*s%s", whatWidth, f.What, rows[0])
	if len(f.What) >= whatWidth { // a hook's name may be long
		text = f.What + "\n" + indent + rows[0]
	}
	if err := paint(w, statusStyles[f.Status], fmt.Sprintf("%-*s", statusWidth, f.Status)); err != nil {
		return err
	}
	for _, row := range rows[1:] {
		text += "\n" + indent + row
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
