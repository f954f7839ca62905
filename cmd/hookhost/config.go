package main

import (
	"encoding/json"
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
		Short: "Check a configuration file and name the line of a mistake",
		RunE: func(cmd *cobra.Command, args []string) error {
			path := c.Config
			if len(args) == 1 {
				path = args[0]
			}
			_, err := os.Stat(path)
			// Only the default file may be absent.
			unnamed := path == config.Path && len(args) == 0 && !cmd.Flags().Changed("config")
			if errors.Is(err, fs.ErrNotExist) && unnamed {
				return c.checkSentHere(cmd.OutOrStdout())
			}
			if path == c.Config {
				_, err = c.readSettings(true)
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
			return writeNoMistakes(cmd.OutOrStdout(), path)
		},
	}, c.configShowCommand(), c.configImportCommand())
	return cmd
}

func (c *cli) configShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show [--json] [KEY...]", Args: nArgs(0, -1),
		Short: "Print settings with their values and where these come from",
		Long: `Print every setting with its meaning, its value, and the source of the value:
the node's file, PBS or the default. KEY is a table, such as memory, or a
setting, such as memory.default.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.loadSettings()
			if err != nil {
				return err
			}
			if asJSON {
				list, err := s.File.Settings(sourceOf(s), args...)
				if err != nil {
					return misuse(fmt.Errorf("config show: %w", err))
				}
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"settings": list})
			}
			b, err := s.File.Show(sourceOf(s), args...)
			if err != nil {
				return misuse(fmt.Errorf("config show: %w", err))
			}
			if err := c.showConditions(cmd.OutOrStdout(), s); err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(b)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// checkSentHere checks the configuration of a node that has no file.
func (c *cli) checkSentHere(w io.Writer) error {
	s, err := c.loadSettings()
	switch {
	case err != nil:
		return err
	case s.Refused != nil:
		return misuse(s.Refused)
	case s.InForce == nil:
		_, err := fmt.Fprintf(w, "%s: no such file: all settings have their defaults\n", c.Config)
		return err
	}
	return writeNoMistakes(w, s.Path)
}

func writeNoMistakes(w io.Writer, path string) error {
	_, err := fmt.Fprintf(w, "%s: no mistakes; hookhost doctor shows whether this node can enforce it\n", path)
	return err
}

// sourceOf returns the name of the file in force, for people.
func sourceOf(s settings.Settings) string {
	if s.InForce != nil {
		return "PBS"
	}
	return s.Path
}

// showConditions writes comments: the value of each condition on this host, and errors in PBS's
// configuration.
func (c *cli) showConditions(w io.Writer, s settings.Settings) error {
	if s.Refused != nil {
		fmt.Fprintf(w, "# Refused, so %s in force: %v\n\n", s.Instead(), s.Refused)
	}
	vntype, err := settings.ReadVntype(&s.File.OpenPBS)
	if err != nil {
		return err
	}
	name, err := settings.Node(s.File)
	if err != nil {
		return err
	}
	list := s.File.Conditions()
	if len(list) == 0 {
		return nil
	}
	fmt.Fprintf(w, "# Conditions of %s on host %s (vntype: %s):\n", sourceOf(s), name, vntype)
	for _, one := range list {
		text := strings.Join(strings.Fields(one.Text), " ")
		fmt.Fprintf(w, "#   line %d: %s = %t, from %q\n", one.Line, one.Key, one.Value, text)
	}
	_, err = fmt.Fprintln(w)
	return err
}
