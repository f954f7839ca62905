package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/openpbs"
)

func (c *cli) eventCommand() *cobra.Command {
	var input string
	var pid int
	cmd := &cobra.Command{
		Use:   "event NAME [--input FILE]",
		Short: "Pass one event to the daemon and print the outcome",
		Long: `Pass one event to the daemon and print the merged outcome of all hooks as JSON.
The event is a JSON object (docs/events.md), or a file that pbs_mom of OpenPBS
writes for its hooks (mom_priv/hooks/tmp/hook_EVENT_HOOK_PID.in). The command
detects the format.

Exit status: 0 accepted, 1 rejected, 2 misuse, 3 no daemon.`,
		Args: nArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := openInput(cmd.InOrStdin(), cmp.Or(input, "-"))
			if err != nil {
				return misuse(err)
			}
			defer in.Close()
			if cmd.Flags().Changed("pid") && pid <= 0 {
				return misuse(fmt.Errorf("pid %d: not a process", pid))
			}
			return c.event(cmd, args[0], in, pid)
		},
	}
	cmd.Flags().IntVar(&pid, "pid", 0, "the process `PID` of a launch or an attach; overrides the event's")
	cmd.Flags().StringVar(&input, "input", "", "read the event from `FILE` instead of standard input")
	return cmd
}

func (c *cli) event(cmd *cobra.Command, name string, in io.Reader, pid int) error {
	event, err := hostapi.ParseEvent(name)
	if err != nil {
		return misuse(err)
	}
	req, err := openpbs.DecodeForm(event, in)
	if err != nil {
		return misuse(err)
	}
	if pid > 0 {
		if event != hostapi.EventLaunch && event != hostapi.EventAttach {
			return misuse(fmt.Errorf("event %s: has no process: --pid is only for launch and attach", event))
		}
		req.PID = pid
	}
	client, err := api.Dial(c.Socket)
	if err != nil {
		return &exitError{status: exitNoHost, err: fmt.Errorf("event %s: %w", event, err)}
	}
	defer client.Close()
	out, err := client.Handle(cmd.Context(), req)
	var refused *api.Error
	switch {
	case errors.As(err, &refused) && refused.Kind == api.KindMalformed:
		return misuse(err)
	case errors.Is(err, api.ErrNoHost):
		return &exitError{status: exitNoHost, err: err}
	case err != nil:
		return &exitError{status: exitRejected, err: err}
	}
	if err := json.NewEncoder(cmd.OutOrStdout()).Encode(out); err != nil {
		return err
	}
	if out.Reject {
		return &exitError{status: exitRejected}
	}
	return nil
}
