//go:build man

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// The manual is written by a program of its own build, so that the one on nodes has no Markdown.
func init() { others = append(others, manCommand) }

// manCommand writes a manual page for each command.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the manual pages", Args: nArgs(1, 1), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			prepare(cmd.Root())
			header := &doc.GenManHeader{Section: "1", Source: "hookhost " + version, Manual: "hookhost"}
			if err := doc.GenManTree(cmd.Root(), header, args[0]); err != nil {
				return fmt.Errorf("man: %w", err)
			}
			return nil
		},
	}
}

// prepare turns a command's help into Markdown. Indented lines become code, and options show the
// names of their values.
func prepare(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	cmd.Long = strings.ReplaceAll(cmd.Long, "\n  ", "\n      ")
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		name, usage := pflag.UnquoteUsage(f)
		if name == "" || name == f.DefValue {
			return
		}
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "0" {
			usage += " (default " + f.DefValue + ")"
		}
		f.DefValue, f.Usage = name, usage
	})
	for _, sub := range cmd.Commands() {
		prepare(sub)
	}
}
