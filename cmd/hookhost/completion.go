package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/report"
)

const (
	completionTime = 2 * time.Second // for the daemon's answer, while somebody waits for a shell
	completedJobs  = 50              // that have ended
)

// completions makes the shell complete the arguments and option values that this program knows.
func (c *cli) completions(root *cobra.Command) {
	fixed := func(values ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	formats := report.FormatNames()
	steps := []string{"account", "environment", "session"}
	var events []string
	for _, event := range hostapi.Events() {
		events = append(events, string(event))
	}
	for path, f := range map[string]cobra.CompletionFunc{
		"jobs": c.completeLive, "report": c.completeJobs, "config show": completeKeys,
		"event": first(fixed(events...)), "pam": first(fixed(steps...)), "hook list": first(c.completeHooks),
		"hook delete": first(c.completeHooks), "hook set": c.completeAttributes, "hook import": c.completeImport,
	} {
		commandAt(root, path).ValidArgsFunction = f
	}
	for _, of := range []struct {
		command, flag string
		complete      cobra.CompletionFunc
	}{
		{"attach", "job", c.completeLive}, {"run", "report", fixed(append(formats, "none")...)},
		{"report", "format", fixed(formats...)}, {"report", "state", list(report.StateNames())},
		{"report", "columns", list(report.ColumnNames())}, {"report", "sort", fixed(report.ColumnNames()...)},
		{"report", "since", fixed("today", "yesterday", "1d", "7d")}, {"report", "until", fixed("today", "yesterday")},
	} {
		if err := commandAt(root, of.command).RegisterFlagCompletionFunc(of.flag, of.complete); err != nil {
			panic(err) // a defect of the program
		}
	}
	noFiles(root)
}

// noFiles keeps the shell from offering files as arguments of commands that take none.
func noFiles(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil && cmd.Args != nil && cmd.Args(cmd, []string{""}) != nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		noFiles(sub)
	}
}

// commandAt returns the command at a path such as "hook set".
func commandAt(root *cobra.Command, path string) *cobra.Command {
	cmd, _, err := root.Find(strings.Fields(path))
	if err != nil {
		panic(err) // a defect of the program
	}
	return cmd
}

// first completes the first argument only.
func first(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, typed)
	}
}

// list completes the last of several values with commas between them.
func list(values []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		var all []cobra.Completion
		for _, value := range values {
			if !slices.Contains(strings.Split(before, ","), value) {
				all = append(all, before+value)
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// completeLive completes the live jobs on this host, with their names and owners.
func (c *cli) completeLive(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	var all []cobra.Completion
	if client, err := api.Dial(c.Socket); err == nil {
		defer client.Close()
		jobs, _ := client.Jobs(ctx)
		for _, j := range jobs {
			all = append(all, described(j.Job.ID, j.Job.Name, j.Job.Owner.User))
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completeJobs completes live and finished jobs, and files.
func (c *cli) completeJobs(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if cmd.Flags().Changed("accounting") || isFile(typed) || len(args) > 0 && isFile(args[0]) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	var all []cobra.Completion
	f := report.Filter{States: []string{"running", "finished"}, Limit: completedJobs}
	_, _ = c.findReports(ctx, f, func(text json.RawMessage) bool { // what was found is offered
		if r, err := report.FromArchive(text); err == nil {
			all = append(all, described(r.Job, r.Name, r.Owner))
		}
		return true
	})
	return all, cobra.ShellCompDirectiveKeepOrder
}

// described returns a job's id with its name and owner for the shells that show them.
func described(id, name, owner string) cobra.Completion {
	return cobra.CompletionWithDesc(id, strings.Join(strings.Fields(name+" "+owner), " "))
}

// completeKeys completes tables and settings of the configuration.
func completeKeys(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return config.Keys(), cobra.ShellCompDirectiveNoFileComp
}

// completeHooks completes the names of registered hooks.
func (c *cli) completeHooks(
	*cobra.Command, []string, string,
) (all []cobra.Completion, _ cobra.ShellCompDirective) {
	if registry, err := c.Registry(config.Default()); err == nil {
		hooks, _ := registry.List()
		for _, h := range hooks {
			all = append(all, h.Name)
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completeAttributes completes a hook and then its attributes.
func (c *cli) completeAttributes(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return c.completeHooks(cmd, args, typed)
	}
	var all []cobra.Completion
	for _, name := range plugin.AttributeNames {
		all = append(all, name+"=")
	}
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeImport completes the arguments of an import, and then the file.
func (c *cli) completeImport(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return c.completeHooks(cmd, args, typed)
	case 1:
		return []cobra.Completion{plugin.ContentProgram, plugin.ContentConfig}, cobra.ShellCompDirectiveDefault
	case 2:
		return []cobra.Completion{"default"}, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}
