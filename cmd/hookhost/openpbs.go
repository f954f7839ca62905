package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/integrations/openpbs/qmgr"
	"github.com/hookhost/hookhost/internal/pbs"
)

const openpbsHelp = `Register hookhost with OpenPBS as one hook, "hookhost". The hook's script
passes pbs_mom's events to the daemon of each node.

  print      print the registration as a script, to read it or to run it on a
             PBS server's host without hookhost
  install    register the hook; run it on the PBS server's host. It changes only
             what differs, so it can be repeated
  config     check the configuration of all nodes and give it to PBS, which
             sends it to them
  uninstall  remove the hook and undo what install changed. The resources
             diag_messages, host_usage, hookhost and container stay, because
             jobs have them

On a node, install --native replaces PBS_EXEC/bin/pbs_python by a program that
handles hookhost's hook without starting Python. For everything else, that
program executes the real pbs_python. docs/openpbs-reference.md describes the
gains and costs.`

// openpbsFlags are the flags that print, install, config and uninstall share.
type openpbsFlags struct {
	qmgr.Registrar
	native bool
}

// standInProgram comes with hookhost. It is beside hookhost after a build, or in libexec.
const standInProgram = "openpbs/pbs_python"

func (c *cli) openpbsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "openpbs", Short: "Register hookhost with OpenPBS", Long: openpbsHelp, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.openpbsPrint(), c.openpbsInstall(), c.openpbsConfig(), c.openpbsUninstall())
	return cmd
}

func (c *cli) newOpenPBSFlags() *openpbsFlags {
	return &openpbsFlags{Registrar: qmgr.Registrar{Out: stdout, ErrOut: stderr, Conf: c.pbsConf}}
}

func (f *openpbsFlags) name(cmd *cobra.Command) {
	f.Registration = openpbs.Default()
	cmd.Flags().StringVar(&f.Registration.Name, "name", f.Registration.Name, "`NAME` of the hook")
}

func (f *openpbsFlags) attributes(cmd *cobra.Command) {
	f.name(cmd)
	r, fs := &f.Registration, cmd.Flags()
	fs.Lookup("name").Usage = "`NAME` of hookhost's hook; only one may be enabled. pbs_cgroups replaces PBS's"
	fs.IntVar(&r.Order, "order", r.Order, "`N` from 1 to 1000: the order among hooks of the same event")
	fs.IntVar(&r.Alarm, "alarm", r.Alarm, "`SECONDS` that one event may take")
	fs.IntVar(&r.Freq, "freq", r.Freq, "`SECONDS` between two exechost_periodic")
	const failUsage = "`ACTION` after a crash or timeout on the vnodes"
	fs.StringVar(&r.FailAction, "fail-action", r.FailAction, failUsage)
	fs.StringArrayVar(&r.More, "event", nil,
		"also request this `EVENT`, for a site's hook: execjob_prologue")
	fs.BoolVar(&r.Cgswap, "cgswap", false,
		"also register the server's hook NAME_cgswap, for manage_cgswap")
	fs.BoolVar(&r.Container, "container", false,
		"also create the resource container, with which a job names its image")
	fs.BoolVar(&r.Disabled, "disabled", false,
		"do not enable a new hook yet, and leave pbs_cgroups as it is")
	fs.BoolVar(&r.DisableStock, "disable-pbs-cgroups", false,
		"disable the hook pbs_cgroups, which would also confine jobs")
}

func (f *openpbsFlags) qmgrFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Qmgr, "qmgr", "", "the `PROGRAM` qmgr (default: in PATH, then in PBS_EXEC/bin)")
	cmd.Flags().BoolVar(&f.DryRun, "dry-run", false, "print what would be done, without doing it")
}

func (f *openpbsFlags) nativeFlags(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&f.native, "native", false, what)
	cmd.Flags().StringVar(&f.Exec, "exec", "", "PBS_EXEC, a `DIRECTORY` (default: the value in pbs.conf)")
}

// check notes which attributes were named, and returns the first error that PBS would report.
func (f *openpbsFlags) check(cmd *cobra.Command) error {
	f.Registration.Named = nil
	for _, flag := range []string{"order", "alarm", "freq", "fail-action"} {
		if cmd.Flags().Changed(flag) {
			f.Registration.Named = append(f.Registration.Named, strings.ReplaceAll(flag, "-", "_"))
		}
	}
	return f.Registration.Check()
}

func (c *cli) openpbsPrint() *cobra.Command {
	f := c.newOpenPBSFlags()
	var shim bool
	cmd := &cobra.Command{
		Use: "print", Short: "Print the registration as a script for the host of the PBS server", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return misuse(fmt.Errorf("openpbs print: %w", err))
			}
			text, err := f.Registration.Print(version)
			if err != nil {
				return misuse(fmt.Errorf("openpbs print: %w", err))
			}
			if shim {
				text = openpbs.Script("")
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	f.attributes(cmd)
	cmd.Flags().BoolVar(&shim, "shim", false, "print only the hook's script")
	return cmd
}

func (c *cli) openpbsInstall() *cobra.Command {
	f := c.newOpenPBSFlags()
	cmd := &cobra.Command{
		Use: "install", Short: "Register the hook on the PBS server's host, or a node's stand-in", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return misuse(fmt.Errorf("openpbs install: %w", err))
			}
			install := f.Install
			if f.native {
				program, err := c.Find(standInProgram)
				if err != nil {
					return err
				}
				install = func() error { return f.InstallNative(program) }
			}
			if err := install(); err != nil {
				return fmt.Errorf("openpbs install: %w", err)
			}
			return nil
		},
	}
	f.attributes(cmd)
	f.qmgrFlags(cmd)
	f.nativeFlags(cmd, "on a node: only replace pbs_python by the stand-in")
	return cmd
}

func (c *cli) openpbsUninstall() *cobra.Command {
	f := c.newOpenPBSFlags()
	cmd := &cobra.Command{
		Use: "uninstall", Args: noArgs,
		Short: "Undo on this host what install did",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.Uninstall(f.native); err != nil {
				return fmt.Errorf("openpbs uninstall: %w", err)
			}
			return nil
		},
	}
	f.name(cmd)
	f.qmgrFlags(cmd)
	f.nativeFlags(cmd, "only restore pbs_python")
	return cmd
}

// pbsConf reads PBS's configuration file of this host, or returns no settings if there is none.
func (c *cli) pbsConf() (map[string]string, error) {
	path := os.Getenv("PBS_CONF_FILE")
	if path == "" {
		path = openPBSOf(c.Config).Conf
	}
	return pbs.ReadConf(path)
}
