package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/doctor"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/settings"
)

func (c *cli) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [--json]",
		Short: "Check what this node can and cannot enforce, why, and how to fix it",
		Args:  noArgs,
		Long: `Examine the node and its configuration, without changing anything. Each item is ok, degraded (works
with restrictions), impossible here, off (by configuration), or unknown (until the daemon or a job
has run). An arrow marks the remedy. The exit status is 1 if a configured hook cannot work.`,
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
			if slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.Blocks }) {
				return &exitError{status: 1}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
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

// Columns of the text: 100 in all.
const (
	statusWidth = 11
	whatWidth   = 23
	foundWidth  = 100 - statusWidth - whatWidth
)

func writeFindings(w io.Writer, findings []doctor.Finding) error {
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
				indent := strings.Repeat(" ", statusWidth+whatWidth)
				line = fmt.Sprintf("%-*s%s\n%s", statusWidth, status, what, indent+row)
			}
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
			status, what = "", ""
		}
	}
	return nil
}

// wrap breaks text between words into rows of at most width bytes. A longer word gets its own row.
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
