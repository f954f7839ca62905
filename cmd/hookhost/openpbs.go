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

const openpbsHelp = `Register hookhost with OpenPBS: one hook, "hookhost". Its script hands pbs_mom's events to the daemon
of each node.

  print      the registration as a script: for the host of the PBS server, without hookhost there, and to be read
  install    the same on this host, the PBS server's; changes only what differs, and may be done again
  config     the configuration of all nodes: check it and hand it to PBS, which sends it to them
  uninstall  take it away and put back what install changed; the resource diag_messages stays, as jobs have it

On a node, install --native sets a program in the place of PBS_EXEC/bin/pbs_python. The program
answers for hookhost's hook without starting Python, and becomes the real one for everything else.
docs/openpbs-reference.md says what that costs and gains.`

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
	cmd.Flags().StringVar(&f.Registration.Name, "name", f.Registration.Name, "name of the hook")
}

func (f *openpbsFlags) attributes(cmd *cobra.Command) {
	f.name(cmd)
	r, fs := &f.Registration, cmd.Flags()
	fs.Lookup("name").Usage = "name of the hook; hookhost is registered under one alone"
	fs.IntVar(&r.Order, "order", r.Order, "order among hooks of the same event, 1 to 1000")
	fs.IntVar(&r.Alarm, "alarm", r.Alarm, "seconds that one event may take")
	fs.IntVar(&r.Freq, "freq", r.Freq, "seconds between two exechost_periodic")
	const failUsage = "what a hook that crashes or runs into its alarm does to the vnodes"
	fs.StringVar(&r.FailAction, "fail-action", r.FailAction, failUsage)
	fs.StringArrayVar(&r.More, "event", nil,
		"ask PBS for this event, too, which a hook of the site's handles: execjob_prologue; may be repeated")
	fs.BoolVar(&r.Cgswap, "cgswap", false,
		"register the server's hook NAME_cgswap as well, which fills in the resource cgswap (manage_cgswap)")
	fs.BoolVar(&r.DisableStock, "disable-pbs-cgroups", false,
		"disable the hook pbs_cgroups, which would confine jobs as well")
}

func (f *openpbsFlags) qmgrFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Qmgr, "qmgr", "", "the program qmgr (PATH, then PBS_EXEC/bin)")
	cmd.Flags().BoolVar(&f.DryRun, "dry-run", false, "print what would be done, and do nothing")
}

func (f *openpbsFlags) nativeFlags(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&f.native, "native", false, what)
	cmd.Flags().StringVar(&f.Exec, "exec", "", "PBS_EXEC (as pbs.conf says)")
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
	cmd.Flags().BoolVar(&shim, "shim", false, "print the hook's script instead")
	return cmd
}

func (c *cli) openpbsInstall() *cobra.Command {
	f := c.newOpenPBSFlags()
	cmd := &cobra.Command{
		Use: "install", Short: "Register the hook on this host, the PBS server's; or --native on a node", Args: noArgs,
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
	f.nativeFlags(cmd, "on a node: set the stand-in in the place of pbs_python, and nothing else")
	return cmd
}

func (c *cli) openpbsUninstall() *cobra.Command {
	f := c.newOpenPBSFlags()
	cmd := &cobra.Command{
		Use: "uninstall", Args: noArgs,
		Short: "Take away what install has made on this host, and put back what it changed",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.Uninstall(f.native); err != nil {
				return fmt.Errorf("openpbs uninstall: %w", err)
			}
			return nil
		},
	}
	f.name(cmd)
	f.qmgrFlags(cmd)
	f.nativeFlags(cmd, "only put pbs_python back")
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
