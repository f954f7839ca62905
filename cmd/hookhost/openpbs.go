package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/pbs"
)

const openpbsHelp = `Register hookhost with OpenPBS: one hook, "hookhost", whose script hands pbs_mom's events to the daemon of each node.

  print      the registration as a script: for the host of the PBS server, without hookhost there, and to be read
  install    the same on this host, the PBS server's; changes only what differs, and may be done again
  config     the configuration of all nodes: check it and hand it to PBS, which sends it to them
  uninstall  take it away and put back what install changed; the resource diag_messages stays, as jobs have it

On a node, install --native sets a program in the place of PBS_EXEC/bin/pbs_python that answers for hookhost's hook without
starting Python, and becomes the real one for everything else. docs/openpbs-reference.md says what that costs and gains.`

// openpbsFlags are what print, install and uninstall share.
type openpbsFlags struct {
	registration openpbs.Registration
	qmgr, exec   string
	dryRun       bool
	native       bool
}

func (c *cli) openpbsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "openpbs", Short: "Register hookhost with OpenPBS", Long: openpbsHelp, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.openpbsPrint(), c.openpbsInstall(), c.openpbsConfig(), c.openpbsUninstall())
	return cmd
}

func (f *openpbsFlags) name(cmd *cobra.Command) {
	f.registration = openpbs.Default()
	cmd.Flags().StringVar(&f.registration.Name, "name", f.registration.Name, "name of the hook")
}

func (f *openpbsFlags) attributes(cmd *cobra.Command) {
	f.name(cmd)
	r, fs := &f.registration, cmd.Flags()
	fs.Lookup("name").Usage = "name of the hook; hookhost is registered under one alone"
	fs.IntVar(&r.Order, "order", r.Order, "order among hooks of the same event, 1 to 1000")
	fs.IntVar(&r.Alarm, "alarm", r.Alarm, "seconds that one event may take")
	fs.IntVar(&r.Freq, "freq", r.Freq, "seconds between two exechost_periodic")
	fs.StringVar(&r.FailAction, "fail-action", r.FailAction, "what a hook that crashes or runs into its alarm does to the vnodes")
	fs.BoolVar(&r.Cgswap, "cgswap", false,
		"register the server's hook NAME_cgswap as well, which fills in the resource cgswap (manage_cgswap)")
	fs.BoolVar(&r.DisableStock, "disable-pbs-cgroups", false, "disable the hook pbs_cgroups, which would confine jobs as well")
}

func (f *openpbsFlags) qmgrFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.qmgr, "qmgr", "", "the program qmgr (PATH, then PBS_EXEC/bin)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "tell what would be done, and do nothing")
}

func (f *openpbsFlags) nativeFlags(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&f.native, "native", false, what)
	cmd.Flags().StringVar(&f.exec, "exec", "", "PBS_EXEC (as pbs.conf says)")
}

// check notes which attributes were named, and returns the first that PBS would refuse.
func (f *openpbsFlags) check(cmd *cobra.Command) error {
	f.registration.Named = nil
	for _, flag := range []string{"order", "alarm", "freq", "fail-action"} {
		if cmd.Flags().Changed(flag) {
			f.registration.Named = append(f.registration.Named, strings.ReplaceAll(flag, "-", "_"))
		}
	}
	return f.registration.Check()
}

func (c *cli) openpbsPrint() *cobra.Command {
	f := &openpbsFlags{}
	var shim bool
	cmd := &cobra.Command{
		Use: "print", Short: "Print the registration as a script for the host of the PBS server", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return misuse(fmt.Errorf("openpbs print: %w", err))
			}
			text, err := f.registration.Print(version)
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
	f := &openpbsFlags{}
	cmd := &cobra.Command{
		Use: "install", Short: "Register the hook on this host, the PBS server's; or --native on a node", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return misuse(fmt.Errorf("openpbs install: %w", err))
			}
			var err error
			if f.native {
				err = f.installNative(c, cmd.OutOrStdout())
			} else {
				err = f.install(c, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			if err != nil {
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
	f := &openpbsFlags{}
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Take away what install has made on this host, and put back what it changed", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.uninstall(c, cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
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

func (f *openpbsFlags) install(c *cli, out, errOut io.Writer) error {
	q, err := c.findQmgr(f.qmgr, "hookhost openpbs print")
	if err != nil {
		return err
	}
	existing, stock, err := q.hooks(f.registration.Name)
	if err != nil {
		return err
	}
	others, err := q.others(f.registration.Name)
	if err != nil {
		return err
	}
	list, err := f.registration.Install(existing, stock, others...)
	if errors.Is(err, openpbs.ErrStock) {
		return fmt.Errorf("%w. Nothing was changed", err)
	}
	if err != nil {
		return err
	}
	resources, err := q.resources()
	if err != nil {
		return err
	}
	if list = append(openpbs.MakeDiagMessages(resources), list...); len(list) == 0 {
		fmt.Fprintf(out, "Hook %s is registered already, and nothing differs.\n", f.registration.Name)
	} else if err := q.carryOut(out, list, f.dryRun); err != nil {
		return err
	}
	if !f.dryRun {
		if err := c.reach(f.registration.Name, errOut); err != nil {
			return err
		}
	}
	if len(list) > 0 && !f.dryRun {
		fmt.Fprintf(out, "\nHook %s is registered.\n%s", f.registration.Name, openpbs.NextSteps)
	}
	if f.registration.StaysDisabled(existing, stock) {
		fmt.Fprintf(out, "Hook %s is disabled, and stays so. To enable it: qmgr -c 'set hook %[1]s enabled = true'\n", f.registration.Name)
	}
	return f.installCgswap(q, resources, out)
}

// installCgswap registers the server's hook that fills in cgswap, and the resource unless it is one
// of known. A hook that is there is brought up to date also where --cgswap was not asked for.
func (f *openpbsFlags) installCgswap(q *qmgr, known map[string]*openpbs.Resource, out io.Writer) error {
	name := f.registration.CgswapName()
	existing, _, err := q.hooks(name)
	if err != nil {
		return err
	}
	if !f.registration.WantsCgswap(existing) {
		return nil
	}
	list, err := f.registration.InstallCgswap(existing, known["cgswap"])
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintf(out, "Hook %s is registered already, and nothing differs.\n", name)
		return nil
	}
	if err := q.carryOut(out, list, f.dryRun); err != nil || f.dryRun {
		return err
	}
	fmt.Fprintf(out, "\nHook %s is registered.\n%s", name, openpbs.CgswapNextSteps)
	return nil
}

func (f *openpbsFlags) uninstall(c *cli, out, errOut io.Writer) error {
	conf, err := c.pbsConf()
	if err != nil {
		return err
	}
	native, err := f.uninstallNative(conf, out)
	if err != nil || f.native {
		return err
	}
	q, err := c.findQmgr(f.qmgr, "")
	if errors.Is(err, errNoQmgr) && native {
		fmt.Fprintln(out, "There is no qmgr here: the hook itself is taken away on the host of the PBS server.")
		return nil
	}
	if err != nil {
		return err
	}
	existing, stock, err := q.hooks(f.registration.Name)
	if err != nil {
		return err
	}
	list, err := f.registration.Uninstall(existing, stock)
	if err != nil {
		return err
	}
	cgswap, _, err := q.hooks(f.registration.CgswapName())
	if err != nil {
		return err
	}
	ours := f.registration.UninstallCgswap(cgswap)
	list = append(list, ours...)
	if len(list) == 0 {
		fmt.Fprintf(out, "There is no hook %s.\n", f.registration.Name)
		return nil
	}
	if err := q.carryOut(out, list, f.dryRun); err != nil {
		return err
	}
	if len(ours) > 0 {
		fmt.Fprintln(out, "The resource cgswap stays: jobs and nodes may have it.")
	}
	if f.dryRun {
		return nil
	}
	if err := c.removed(f.registration.Name, errOut); err != nil {
		return err
	}
	return c.reach(openpbs.Stock, errOut)
}

// pbsConf reads PBS's configuration file of this host: none where it is not there.
func (c *cli) pbsConf() (map[string]string, error) {
	path := os.Getenv("PBS_CONF_FILE")
	if path == "" {
		cfg, err := c.load()
		if err != nil {
			return nil, err
		}
		path = cfg.OpenPBS.Conf
	}
	return pbs.ReadConf(path)
}
