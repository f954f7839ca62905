package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
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

// TestPageOfCommandsHasEachCommand compares docs/commands.md with the program's help.
func TestPageOfCommandsHasEachCommand(t *testing.T) {
	page, err := os.ReadFile("../../docs/commands.md")
	must.NoError(t, err)
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`hookhost .*?) \\| ").FindAllStringSubmatch(string(page), -1) {
		for _, name := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(row[1], -1) {
			listed = append(listed, strings.Fields(strings.TrimPrefix(name[1], "hookhost "))...)
		}
	}
	for _, cmd := range newCommand("hookhost").Commands() {
		for _, sub := range append(cmd.Commands(), cmd) {
			if sub.IsAvailableCommand() && sub.Name() != "help" && !slices.Contains(listed, sub.Name()) {
				t.Errorf("docs/commands.md has no %s", sub.CommandPath())
			}
		}
	}
}
