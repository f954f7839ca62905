package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/config"
)

const openpbsConfigHelp = `Make FILE, a hookhost.toml, the configuration of all nodes; "-" is
standard input. The file is checked first. PBS sends it to every node within seconds, and to a node
that was down when it is up. It is in force from the next event of its node: the next job has it.
Conditions such as "host in: LIST" and "vntype in: LIST" let one file serve unlike nodes. A node that
has its own /etc/hookhost/hookhost.toml uses that file instead.

host.node and [openpbs] can be only in a node's own file. The shim always reads the table [shim] of
PBS's file, which a node's own file cannot have.

Without FILE the configuration that PBS has is printed.`

func (c *cli) openpbsConfig() *cobra.Command {
	f := c.newOpenPBSFlags()
	var remove, print bool
	cmd := &cobra.Command{
		Use: "config [FILE]", Long: openpbsConfigHelp, Args: nArgs(0, 1),
		Short: "Check the configuration of all nodes and hand it to PBS, or print it; on the PBS server's host",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.runOpenPBSConfig(cmd, f, args, remove, print); err != nil {
				return fmt.Errorf("openpbs config: %w", err)
			}
			return nil
		},
	}
	f.name(cmd)
	f.qmgrFlags(cmd)
	cmd.Flags().BoolVar(&remove, "remove", false, "take the configuration of all nodes away")
	const printUsage = "print a script that does it: for the host of the PBS server, without hookhost there"
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
