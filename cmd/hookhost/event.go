package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/openpbs"
	"github.com/hookhost/hookhost/internal/pbs"
)

// maxEvent bounds an event file. A job's whole environment fits in it many times.
const maxEvent = 8 << 20

func (c *cli) eventCommand() *cobra.Command {
	var input string
	var pid int
	cmd := &cobra.Command{
		Use:   "event NAME [--input FILE]",
		Short: "Hand one event from a file to the daemon and print the verdict",
		Long: `Hand one event to the daemon and print the merged outcome of all hooks as JSON. The event is a JSON object (docs/events.md), or what
pbs_mom of OpenPBS gives to its hooks: the input file of a hook (mom_priv/hooks/tmp/hook_EVENT_HOOK_PID.in), or JSON that was made of
pbs.event(). Which of them it is its first bytes tell. Where no daemon runs, one is started that goes seconds after its
last job and client.
Exit status: 0 accepted, 1 rejected, 2 misuse, 3 no daemon.`,
		Args: nArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := io.Reader(cmd.InOrStdin())
			if input != "" && input != "-" {
				f, err := os.Open(input)
				if err != nil {
					return misuse(err)
				}
				defer f.Close()
				in = f
			}
			if cmd.Flags().Changed("pid") && pid <= 0 {
				return misuse(fmt.Errorf("pid %d: not a process", pid))
			}
			return c.event(cmd, args[0], in, pid)
		},
	}
	cmd.Flags().IntVar(&pid, "pid", 0, "the process of a launch or an attach, instead of what the event says")
	cmd.Flags().StringVar(&input, "input", "", "read the event from FILE instead of standard input")
	return cmd
}

func (c *cli) event(cmd *cobra.Command, name string, in io.Reader, pid int) error {
	event, err := hostapi.ParseEvent(name)
	if err != nil {
		return misuse(err)
	}
	req, ignored, err := decodeEvent(event, in)
	if err != nil {
		return misuse(err)
	}
	if pid > 0 {
		if event != hostapi.EventLaunch && event != hostapi.EventAttach {
			return misuse(fmt.Errorf("event %s: has no process, --pid is for launch and attach", event))
		}
		req.PID = pid
	}
	if len(ignored) > 0 {
		cfg, err := c.load()
		if err != nil { // the daemon's counts, not what somebody is writing just now
			cfg = config.Default()
		}
		newLog(cfg).WithFields(logrus.Fields{"event": event, "keys": ignored}).Debug("event has keys that are not known here")
	}
	client, err := c.openDaemon(cmd.Context())
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

// decodeEvent reads an event in any of its forms and returns the keys that it ignored beside it.
func decodeEvent(event hostapi.Event, in io.Reader) (*hostapi.Request, []string, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxEvent+1))
	if err != nil {
		return nil, nil, fmt.Errorf("event %s: %w", event, err)
	}
	var e *openpbs.Event
	switch {
	case openpbs.IsInput(b):
		e, err = openpbs.Decode(b)
	case openpbs.IsDump(b):
		e, err = openpbs.DecodeDump(b)
	default:
		req, ignored, err := hostapi.DecodeRequest(string(event), bytes.NewReader(b), maxEvent)
		if err == nil {
			err = checkResources(req)
		}
		return req, ignored, err
	}
	switch {
	case err != nil:
		return nil, nil, err
	case e.Request.Event != event:
		return nil, nil, fmt.Errorf("event %s: the file has %s", event, e.Request.Event)
	}
	return e.Request, nil, nil
}

// checkResources finds values that PBS itself would never have sent, before anything is done with them.
func checkResources(req *hostapi.Request) error {
	if err := checkResourceList(req); err != nil {
		return err
	}
	return checkExecVnode(req)
}

// checkResourceList is the part of checkResources about what the job's user has asked for; exec_vnode is PBS's own.
func checkResourceList(req *hostapi.Request) error {
	if req.Job == nil {
		return nil
	}
	if err := pbs.CheckResources(req.Job.ResourceList); err != nil {
		return fmt.Errorf("job.resource_list: %w", err)
	}
	return nil
}

// checkExecVnode is the other part.
func checkExecVnode(req *hostapi.Request) error {
	if req.Job == nil || req.Job.ExecVnode == "" {
		return nil
	}
	if _, err := pbs.ParseExecVnode(req.Job.ExecVnode); err != nil {
		return fmt.Errorf("job.exec_vnode: %w", err)
	}
	return nil
}
