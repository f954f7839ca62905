package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/hostapi/examples"
	"github.com/hookhost/hookhost/internal/plugin"
)

func (c *cli) hookNewCommand() *cobra.Command {
	var language string
	cmd := &cobra.Command{
		Use: "new NAME [--lang go|python]", Short: "Write a new hook, its test and a Makefile to the directory NAME",
		Args: nArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if err := plugin.CheckName(name); err != nil {
				return misuse(err)
			}
			files, err := examples.New(language, name)
			if err != nil {
				return misuse(fmt.Errorf("hook new: %w", err))
			}
			if err := os.Mkdir(name, 0o777); err != nil {
				return fmt.Errorf("hook new: %w", err)
			}
			names := slices.Sorted(maps.Keys(files))
			for _, file := range names {
				mode := os.FileMode(0o666)
				if strings.HasPrefix(files[file], "#!") {
					mode = 0o777
				}
				if err := os.WriteFile(filepath.Join(name, file), []byte(files[file]), mode); err != nil {
					return fmt.Errorf("hook new: %w", err)
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\nTo test the hook: cd %[1]s && make test\n", name,
				strings.Join(names, ", "))
			return nil
		},
	}
	cmd.Flags().StringVar(&language, "lang", "go", "language of the hook: go or python")
	return cmd
}
