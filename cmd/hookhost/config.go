package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/config"
)

func (c *cli) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Check, show or import the configuration", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "check [FILE]", Short: "Check a configuration file: exit status 2 and the line of the first mistake", Args: nArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := c.config
			if len(args) == 1 {
				path = args[0]
			}
			here, err := here(path)
			if err != nil {
				return err
			}
			_, err = os.Stat(path)
			// Only the file that nobody named may be absent.
			if errors.Is(err, fs.ErrNotExist) && path == config.Path && len(args) == 0 && !cmd.Flags().Changed("config") {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: no such file: every setting has its default\n", path)
				return nil
			}
			var refused error
			if path == c.config {
				var s settings
				s, err = c.settings(true)
				refused = s.refused
			} else {
				_, err = config.Load(path, true, here)
			}
			if err != nil {
				return misuse(err)
			}
			if refused != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "hookhost: below it: %v\n", refused)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: no mistakes; hookhost doctor tells whether this node can do it\n", path)
			return nil
		},
	}, &cobra.Command{
		Use: "show", Short: "Print every setting with the value in force, and where it comes from: PBS, the file or the default", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.loadSettings()
			if err != nil {
				return err
			}
			if err := c.showConditions(cmd.OutOrStdout(), s); err != nil {
				return err
			}
			b, err := s.file.Show(s.called)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(b)
			return err
		},
	}, c.configImportCommand())
	return cmd
}

// showConditions writes comments that say what became of each condition of the configuration on
// this host, and what is wrong with one that PBS has sent.
func (c *cli) showConditions(w io.Writer, s settings) error {
	if s.refused != nil {
		fmt.Fprintf(w, "# Refused, the one before is in force: %v\n\n", s.refused)
	}
	vntype, err := readVntype(&s.file.OpenPBS)
	if err != nil {
		return err
	}
	name, err := nodeName(s.file)
	if err != nil {
		return err
	}
	for _, l := range s.file.Layers() {
		list := s.file.Conditions(l)
		if len(list) == 0 {
			continue
		}
		fmt.Fprintf(w, "# Conditions of %s on host %s (vntype: %s):\n", s.called(l), name, vntype)
		for _, one := range list {
			fmt.Fprintf(w, "#   line %d: %s = %t, from %q\n", one.Line, one.Key, one.Value, strings.Join(strings.Fields(one.Text), " "))
		}
		fmt.Fprintln(w)
	}
	return nil
}
