package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/plugin"
)

const hookHelp = `Register hooks, as with qmgr. Each hook is a file in hooks.d, beside the
configuration. Every change takes effect in a running daemon at once.
'hook set --help' lists the attributes.

user=pbsuser is refused. To run a hook as the job's owner, register it in PBS
with its own qmgr.

The daemon starts an imported program at once. If the program does not run,
'hook import' prints a warning and 'hook list' shows the reason. 'hook new'
writes a hook to start from, and 'hook test' tests a program before it is
imported.`

const setHelp = `Set attributes of a hook. These are the attributes and their defaults:

  enabled=true
  event=""           (empty: every event that the program handles)
  order=1            (1 to 1000; hooks run in ascending order)
  alarm=30           (seconds that one event may take)
  fail_action=none   (or offline_vnodes, clear_vnodes_upon_recovery,
                     scheduler_restart_cycle)
  freq=120           (seconds between two exechost_periodic)
  user=pbsadmin      debug=false        type=site

What an error of the hook counts against (see docs/hooks.md):

  on_node_error=job  (the node lacks something, or the program does not run)
  on_alarm=job       (the event took longer than alarm)
  on_defect=job      (the program crashed twice, or its answer is invalid)

With node, the event is rejected and the host's vnodes go offline; with job, it
is only rejected; with nothing, it goes on without the hook. If fail_action has
offline_vnodes, the default is node, as in PBS. For a crash or alarm of
hookhost's own hooks it is job. on_alarm= restores the default.`

// startWait is how long import waits for the hook's program to start.
const startWait = 10 * time.Second

func (c *cli) hookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "hook", Short: "Register hooks", Long: hookHelp, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	change := func(use, short, long string, args cobra.PositionalArgs,
		do func(r *plugin.Registry, args []string) error) {
		run := func(cmd *cobra.Command, args []string) error {
			return c.changeHooks(cmd, func(r *plugin.Registry) error { return do(r, args) })
		}
		cmd.AddCommand(&cobra.Command{Use: use, Short: short, Long: long, Args: args, RunE: run})
	}
	change("create NAME", "Register a hook that has no program yet", "", nArgs(1, 1),
		func(r *plugin.Registry, args []string) error { return r.Create(args[0]) })
	change("delete NAME", "Unregister a hook and delete its copies", "", nArgs(1, 1),
		func(r *plugin.Registry, args []string) error { return r.Delete(args[0]) })
	change("set NAME ATTRIBUTE=VALUE...", "Set attributes of a hook", setHelp, nArgs(2, -1),
		func(r *plugin.Registry, args []string) error { return r.Set(args[0], args[1:]...) })
	cmd.AddCommand(c.hookNewCommand(), c.hookTestCommand(), c.hookImportCommand(), c.hookListCommand())
	return cmd
}

func (c *cli) hookImportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import NAME CONTENT_TYPE default FILE",
		Short: "Copy a hook's program or configuration file and register the copy", Args: nArgs(2, 4),
		Long: `Copy a hook's program or configuration file and register the copy. The arguments
are qmgr's: CONTENT_TYPE is application/x-executable or application/x-config,
and the content encoding is default. For a program both may be left out. FILE -
is standard input.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := c.changeHooks(cmd, func(r *plugin.Registry) error { return importHook(r, args) })
			if err == nil {
				c.warnBroken(cmd.Context(), args[0])
			}
			return err
		},
	}
}

// warnBroken prints why a hook does not run after an import. It waits up to startWait for the
// program to start.
func (c *cli) warnBroken(ctx context.Context, name string) {
	client, err := api.Dial(c.Socket)
	if err != nil {
		return
	}
	defer client.Close()
	for end := time.Now().Add(startWait); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		node, err := client.Node(ctx)
		i := slices.IndexFunc(node.Hooks, func(h api.HookInfo) bool { return h.Name == name })
		if err != nil || i < 0 {
			return
		}
		if h := node.Hooks[i]; h.State != "starting" {
			if h.Error != "" {
				fmt.Fprintf(stderr, "hookhost: hook import: hook %s is %s: %s\n", name, h.State, h.Error)
			}
			return
		}
	}
	fmt.Fprintf(stderr, "hookhost: hook import: hook %s is still starting: see 'hookhost hook list'\n", name)
}

// importHook accepts qmgr's four arguments. For a program, content type and encoding may be left
// out.
func importHook(r *plugin.Registry, args []string) error {
	contentType, file := plugin.ContentProgram, args[len(args)-1]
	if len(args) > 2 {
		contentType = args[1]
	}
	if len(args) == 4 && args[2] != "default" {
		return fmt.Errorf("import %s: content encoding %q: only default is known", args[0], args[2])
	}
	in, err := openInput(os.Stdin, file)
	if err != nil {
		return misuse(err)
	}
	defer in.Close()
	// The programs' directory is in the state directory, which other users must not read.
	if err := os.MkdirAll(filepath.Dir(r.ProgramDir), 0o700); err != nil {
		return err
	}
	return r.Import(args[0], contentType, in)
}

// changeHooks makes a change and makes a running daemon reload the hooks.
func (c *cli) changeHooks(cmd *cobra.Command, change func(*plugin.Registry) error) error {
	r, err := c.loadRegistry()
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("hook: only root may register programs that run as root: run it as root")
	}
	if err := change(r); err != nil {
		return refusal(err)
	}
	client, err := api.Dial(c.Socket)
	if errors.Is(err, api.ErrNoHost) {
		return nil // the daemon will read the files when it starts
	}
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Reload(cmd.Context()); err != nil {
		return fmt.Errorf("registered, but the running daemon did not apply the change: %w", err)
	}
	return nil
}

// refusal turns a registry's refusal into a misuse. A failure of the system, such as a full disk,
// is not a misuse.
func refusal(err error) error {
	var failure syscall.Errno
	if errors.As(err, &failure) {
		return err
	}
	return misuse(err)
}

func (c *cli) hookListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list [NAME] [--json]", Short: "List hooks with their attributes", Args: nArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := c.loadRegistry()
			if err != nil {
				return err
			}
			hooks, err := r.List()
			if len(args) == 1 {
				h, getErr := r.Get(args[0])
				if getErr != nil {
					return getErr
				}
				hooks, err = []plugin.Hook{h}, nil
			}
			for _, h := range hooks {
				if h.Fault != "" {
					err = errors.Join(err, fmt.Errorf("hook %s: %s", h.Name, h.Fault))
				}
			}
			if asJSON {
				return errors.Join(json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"hooks": hooks}), err)
			}
			states := c.hookStates(cmd.Context())
			for _, h := range hooks {
				writeHook(cmd.OutOrStdout(), h, states[h.Name])
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// hookStates returns, by hook, the states of programs that do not run or have failed. The result is
// nil without a daemon.
func (c *cli) hookStates(ctx context.Context) map[string]string {
	client, err := api.Dial(c.Socket)
	if err != nil {
		return nil
	}
	defer client.Close()
	node, err := client.Node(ctx)
	if err != nil {
		return nil
	}
	states := make(map[string]string)
	for _, h := range node.Hooks {
		if h.Error != "" {
			states[h.Name] = h.State + ": " + h.Error
		}
	}
	return states
}

// writeHook prints a hook like `list hook` of qmgr. state is the state of its program, or "" if it
// runs.
func writeHook(w io.Writer, h plugin.Hook, state string) {
	fmt.Fprintf(w, "Hook %s\n", h.Name)
	row := func(name string, value any) { fmt.Fprintf(w, "    %s = %v\n", name, value) }
	if h.Fault != "" {
		row("fault", h.Fault)
	} else if state != "" {
		row("state", state)
	}
	row("type", h.Type)
	row("enabled", h.Enabled)
	if len(h.Event) > 0 {
		row("event", h.Event)
	} else { // as qmgr shows it, with its meaning here
		row("event", `"" (every event that the program handles)`)
	}
	row("order", h.Order)
	row("alarm", h.Alarm)
	row("fail_action", h.FailAction)
	row("on_node_error", h.Blames(hostapi.KindNode))
	row("on_alarm", h.Blames(hostapi.KindTimeout))
	row("on_defect", h.Blames(hostapi.KindInternal))
	row("freq", h.Freq)
	row("user", h.User)
	row("debug", h.Debug)
	if h.Program != "" {
		row("program", h.Program)
	}
	if h.SHA256 != "" {
		row("sha256", h.SHA256)
	}
	if h.Config != "" {
		row("config", h.Config)
	}
}

// loadRegistry returns this node's hooks. Only those that come with hookhost depend on the
// configuration. If it cannot be read, they have the defaults.
func (c *cli) loadRegistry() (*plugin.Registry, error) {
	cfg, err := c.load()
	if err != nil {
		fmt.Fprintf(stderr, "hookhost: hook: hooks that come with hookhost are shown with their defaults: %v\n", err)
		cfg = config.Default()
	}
	return c.Registry(cfg)
}
