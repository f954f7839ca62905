// Command hookhost is the hook host of a PBS compute node: the daemon, and the commands that are
// its clients. Each command but version has a file. All use cli.go.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hookhost/hookhost/internal/mom"
	"github.com/hookhost/hookhost/internal/spelling"
)

// version is set by the Makefile.
var version = "unknown"

// libexecDir is where files that come with hookhost are installed. The Makefile sets it.
var libexecDir = "/usr/libexec/hookhost"

// Exit statuses. `run` also uses those of shells and of its command.
const (
	exitRejected   = 1
	exitMisuse     = 2
	exitNoHost     = 3
	exitHostFailed = 125
)

// exitError ends the program with a status. With a nil err, nothing is printed.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

// misuse marks an error as the caller's mistake: exit status 2.
func misuse(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{status: exitMisuse, err: err}
}

// aliases are program names that stand for a command. Hydra's launcher can be given a program but
// no arguments. cmd/pbs-attach uses the name pbs_attach when it leaves a call to this program.
var aliases = map[string]string{"pbs_attach": "attach", "hookhost-remsh": "remsh"}

func main() {
	if mom.IsStub() {
		mom.RunStub()
		os.Exit(exitHostFailed)
	}
	called := filepath.Base(os.Args[0])
	if command, ok := aliases[called]; ok {
		os.Args = append([]string{os.Args[0], command}, os.Args[1:]...)
	}
	os.Exit(exitStatus(called, newCommand(called).Execute()))
}

// exitStatus prints an error as one line, with the name under which the program was called, and
// returns the exit status.
func exitStatus(called string, err error) int {
	if err == nil {
		return 0
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{status: 1, err: err}
	}
	if exit.err != nil {
		fmt.Fprintln(stderr, inName(called, strings.ReplaceAll(exit.err.Error(), "\n", "; ")))
	}
	return exit.status
}

// inName puts the program's name in front of a message: "hookhost: attach: ...", or "pbs_attach:
// ..." under that name.
func inName(called, message string) string {
	if isPBS(called) {
		if rest, ok := strings.CutPrefix(message, aliases[called]); ok {
			return called + rest
		}
		return called + ": " + message
	}
	return "hookhost: " + message
}

// isPBS reports whether the program was called under a name of PBS.
func isPBS(called string) bool { return aliases[called] != "" && strings.HasPrefix(called, "pbs_") }

// others are commands that only some builds have.
var others []func() *cobra.Command

func newCommand(called string) *cobra.Command {
	c := &cli{called: called}
	root := &cobra.Command{
		Use:   "hookhost",
		Short: "Hook host for PBS compute nodes",
		Long: `hookhost confines PBS jobs to the resources they requested and records what
they used. On a compute node it gets the events of each job from PBS. It calls
hooks, which are programs that create the job's cgroup, add processes to it,
enforce its limits and report its usage.`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetVersionTemplate("hookhost {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	c.flags(root)
	wrapped := fmt.Sprintf(".FlagUsagesWrapped %d ", helpColumns)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", wrapped))
	group(root, "Jobs:", c.runCommand(), c.jobsCommand(), c.topCommand(), c.reportCommand(), c.webCommand())
	group(root, "This node and PBS:", c.serveCommand(), c.doctorCommand(), c.configCommand(), c.hookCommand(),
		c.openpbsCommand())
	group(root, "Called by PBS, launchers and PAM:", c.eventCommand(), c.attachCommand(), c.remshCommand(),
		c.pamCommand())
	root.AddCommand(c.versionCommand())
	for _, command := range others {
		root.AddCommand(command())
	}
	misuseFlags(root)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = helpArgs
	}
	c.completions(root)
	if isPBS(called) {
		pbsUsage(root)
	}
	return root
}

// helpColumns is the width of a terminal that shows each help.
const helpColumns = 80

// group adds commands that the help lists together.
func group(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
	}
	root.AddCommand(commands...)
}

// pbsUsage reports wrong flags as PBS's programs do.
func pbsUsage(root *cobra.Command) {
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		fmt.Fprintf(stderr, "%v\n%s", err, pbsAttachUsage)
		return &exitError{status: exitMisuse}
	})
}

// wanted maps types of flags to the values that they take.
var wanted = map[string]string{"int": "a whole number", "duration": "a time such as 2s"}

// misuseFlags makes a wrong flag of any command a misuse. For an unknown flag, the error names the
// nearest one.
func misuseFlags(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var unknown *pflag.NotExistError
		var invalid *pflag.InvalidValueError
		if errors.As(err, &invalid) {
			if want := wanted[invalid.GetFlag().Value.Type()]; want != "" {
				err = fmt.Errorf("--%s: %q is not %s", invalid.GetFlag().Name, invalid.GetValue(), want)
			}
		}
		if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
			var names []string
			cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
			if meant := spelling.Nearest(unknown.GetSpecifiedName(), names); meant != "" {
				err = fmt.Errorf("%w: did you mean --%s?", err, meant)
			}
		}
		return misuse(fmt.Errorf("%s: %w (see '%s --help')", cmd.Name(), err, cmd.CommandPath()))
	})
}

// suggestionDistance is how many letters of a command may be wrong for cobra to suggest it.
const suggestionDistance = 2

// noArgs refuses arguments. For a command with subcommands these are unknown subcommands.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		prefix, meant := "", ""
		if cmd.HasParent() {
			prefix = cmd.Name() + ": "
		}
		cmd.SuggestionsMinimumDistance = suggestionDistance
		if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
			meant = ": did you mean " + strings.Join(names, " or ") + "?"
		}
		return misuse(fmt.Errorf("%sunknown command %q%s (see '%s --help')", prefix, args[0], meant, cmd.CommandPath()))
	}
	return misuse(fmt.Errorf("%s: takes no argument, got %q", cmd.Name(), args[0]))
}

// helpArgs refuses the name of a command that does not exist.
func helpArgs(cmd *cobra.Command, args []string) error {
	of, rest, err := cmd.Root().Find(args)
	if err != nil || !of.HasSubCommands() {
		return err
	}
	return noArgs(of, rest)
}

// nArgs requires between low and high arguments; high < 0 means no limit.
func nArgs(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || high >= 0 && len(args) > high {
			return misuse(fmt.Errorf("usage: %s", cmd.UseLine()))
		}
		return nil
	}
}

// noEmpty refuses an empty argument or value of a flag. It may be an empty variable of a script,
// and must not mean every job.
func noEmpty(cmd *cobra.Command, args []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if text := f.Value.String(); text == "" || text == "[]" {
			err = misuse(fmt.Errorf("%s: --%s: no value", cmd.Name(), f.Name))
		}
	})
	if slices.Contains(args, "") {
		err = misuse(fmt.Errorf("%s: an argument is empty", cmd.Name()))
	}
	return err
}

func (c *cli) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version [--json]", Short: "Print the version", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{"version": version})
			}
			c.printVersion()
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printVersion prints the version, in the format of PBS's programs if called under one of their
// names.
func (c *cli) printVersion() {
	name := "hookhost"
	if isPBS(c.called) {
		name = "pbs_version ="
	}
	fmt.Fprintln(stdout, name, version)
}
