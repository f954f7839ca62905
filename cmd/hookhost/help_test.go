package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/must"
)

// TestHelpFitsATerminal reads the help of each command.
func TestHelpFitsATerminal(t *testing.T) {
	root := newCommand("hookhost")
	root.InitDefaultHelpCmd() // the help of completion is cobra's
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		var b bytes.Buffer
		cmd.SetOut(&b)
		must.NoError(t, cmd.Help())
		for line := range strings.Lines(b.String()) {
			if line = strings.TrimRight(line, "\n"); utf8.RuneCountInString(line) > helpColumns {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(root)
}
