package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/config"
)

func (c *cli) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Check or show the configuration", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "check [FILE]", Short: "Check a configuration file: exit status 2 and the line of the first mistake", Args: nArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := c.config
			if len(args) == 1 {
				path = args[0]
			}
			if _, err := config.Load(path, len(args) == 1 || cmd.Flags().Changed("config")); err != nil {
				return misuse(err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: no mistakes\n", path)
			return nil
		},
	}, &cobra.Command{
		Use: "show", Short: "Print every setting with the value in force", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := c.load()
			if err != nil {
				return err
			}
			b, err := f.TOML()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(b)
			return err
		},
	})
	return cmd
}
