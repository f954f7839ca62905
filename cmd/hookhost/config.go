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
	"github.com/hookhost/hookhost/internal/settings"
)

func (c *cli) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Check, show or import the configuration", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "check [FILE]", Args: nArgs(0, 1),
		Short: "Check a configuration file: exit status 2 and the line of the first mistake",
		RunE: func(cmd *cobra.Command, args []string) error {
			path := c.Config
			if len(args) == 1 {
				path = args[0]
			}
			_, err := os.Stat(path)
			// Only the file that nobody named may be absent.
			unnamed := path == config.Path && len(args) == 0 && !cmd.Flags().Changed("config")
			if errors.Is(err, fs.ErrNotExist) && unnamed {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: no such file: every setting has its default\n", path)
				return nil
			}
			var refused error
			if path == c.Config {
				var s settings.Settings
				s, err = c.readSettings(true)
				refused = s.Refused
			} else {
				here, hereErr := hereFor(path)
				if hereErr != nil {
					return hereErr
				}
				_, err = config.Load(path, here)
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
		Use: "show", Args: noArgs,
		Short: "Print every setting with the value in force, and where it comes from: PBS, the file or the default",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.loadSettings()
			if err != nil {
				return err
			}
			if err := c.showConditions(cmd.OutOrStdout(), s); err != nil {
				return err
			}
			b, err := s.File.Show(s.Called)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(b)
			return err
		},
	}, c.configImportCommand())
	return cmd
}

// showConditions writes comments: what each condition of the configuration is on this host, and
// what is wrong with PBS's configuration.
func (c *cli) showConditions(w io.Writer, s settings.Settings) error {
	if s.Refused != nil {
		fmt.Fprintf(w, "# Refused, the one before is in force: %v\n\n", s.Refused)
	}
	vntype, err := settings.ReadVntype(&s.File.OpenPBS)
	if err != nil {
		return err
	}
	name, err := settings.Node(s.File)
	if err != nil {
		return err
	}
	for _, l := range s.File.Layers() {
		list := s.File.Conditions(l)
		if len(list) == 0 {
			continue
		}
		fmt.Fprintf(w, "# Conditions of %s on host %s (vntype: %s):\n", s.Called(l), name, vntype)
		for _, one := range list {
			text := strings.Join(strings.Fields(one.Text), " ")
			fmt.Fprintf(w, "#   line %d: %s = %t, from %q\n", one.Line, one.Key, one.Value, text)
		}
		fmt.Fprintln(w)
	}
	return nil
}
