package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/config"
)

const openpbsConfigHelp = `Make FILE, a hookhost.toml, the configuration of all nodes. "-" is standard
input. The file is checked first. PBS sends it to every node within seconds,
and to a node that is down when it comes up. On each node it takes effect at
the next event, so it applies to the next job. Conditions such as "host in:
LIST" and "vntype in: LIST" let one file serve unlike nodes. A node that has
its own /etc/hookhost/hookhost.toml uses that file instead.

host.node and [openpbs] are only allowed in a node's own file. [shim] is only
allowed in PBS's file. The shim always reads it from there, even on a node with
its own file.

Without FILE, print the configuration that PBS has.`

func (c *cli) openpbsConfig() *cobra.Command {
	f := c.newOpenPBSFlags()
	var remove, print bool
	cmd := &cobra.Command{
		Use: "config [FILE]", Long: openpbsConfigHelp, Args: nArgs(0, 1),
		Short: "Check or print the configuration of all nodes, or give it to PBS",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.runOpenPBSConfig(cmd, f, args, remove, print); err != nil {
				return fmt.Errorf("openpbs config: %w", err)
			}
			return nil
		},
	}
	f.name(cmd)
	f.qmgrFlags(cmd)
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the configuration of all nodes")
	const printUsage = "print a script that does this on a PBS server's host without hookhost"
	cmd.Flags().BoolVar(&print, "print", false, printUsage)
	return cmd
}

func (c *cli) runOpenPBSConfig(cmd *cobra.Command, f *openpbsFlags, args []string, remove, print bool) error {
	if remove == (len(args) == 1) && (remove || print) {
		return misuse(errors.New("openpbs config: want either FILE or --remove"))
	}
	var text []byte
	if len(args) == 1 {
		var err error
		if text, err = readInput(cmd.InOrStdin(), args[0]); err == nil {
			err = c.checkSent(args[0], text)
		}
		if err != nil {
			return misuse(fmt.Errorf("openpbs config: %w", err))
		}
	}
	if print {
		script, err := f.Registration.PrintConfig(version, text)
		if err != nil {
			return misuse(fmt.Errorf("openpbs config: %w", err))
		}
		_, err = cmd.OutOrStdout().Write(script)
		return err
	}
	if len(args) == 0 && !remove {
		return f.Configuration()
	}
	return f.Configure(text)
}

// checkSent checks a configuration for all nodes, as each of them will.
func (c *cli) checkSent(name string, text []byte) error {
	here, err := hereFor(c.Config)
	if err != nil {
		return err
	}
	if _, err = config.Parse(text, here); err == nil {
		err = config.CheckSent(text)
	}
	if err != nil {
		return fmt.Errorf("configuration %s: %w", name, err)
	}
	return nil
}
