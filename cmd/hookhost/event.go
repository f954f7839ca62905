package main

import (
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
	"github.com/hookhost/hookhost/internal/pbs"
)

// maxEvent bounds an event file. A job's whole environment fits in it many times.
const maxEvent = 8 << 20

func (c *cli) eventCommand() *cobra.Command {
	var input string
	cmd := &cobra.Command{
		Use:   "event NAME [--input FILE]",
		Short: "Hand one event from a file to the daemon and print the verdict",
		Long: `Hand one event, a JSON object, to the daemon and print the merged outcome of all hooks as JSON.
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
			return c.event(cmd, args[0], in)
		},
	}
	cmd.Flags().StringVar(&input, "input", "", "read the event from FILE instead of standard input")
	return cmd
}

func (c *cli) event(cmd *cobra.Command, name string, in io.Reader) error {
	event, err := hostapi.ParseEvent(name)
	if err != nil {
		return misuse(err)
	}
	req, ignored, err := hostapi.DecodeRequest(name, in, maxEvent)
	if err != nil {
		return misuse(err)
	}
	if err := checkResources(req); err != nil {
		return misuse(err)
	}
	if len(ignored) > 0 {
		cfg, err := c.load()
		if err != nil { // the daemon's counts, not what somebody is writing just now
			cfg = config.Default()
		}
		newLog(cfg).WithFields(logrus.Fields{"event": event, "keys": ignored}).Debug("event has keys that are not known here")
	}
	client, err := api.Dial(c.socket)
	if errors.Is(err, api.ErrNoHost) {
		return &exitError{status: exitNoHost, err: fmt.Errorf("event %s: %w (start it with 'hookhost serve')", event, err)}
	}
	if err != nil {
		return &exitError{status: exitNoHost, err: err}
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

// checkResources finds values that PBS itself would never have sent, before anything is done with them.
func checkResources(req *hostapi.Request) error {
	if req.Job == nil {
		return nil
	}
	if err := pbs.CheckResources(req.Job.ResourceList); err != nil {
		return fmt.Errorf("job.resource_list: %w", err)
	}
	if req.Job.ExecVnode != "" {
		if _, err := pbs.ParseExecVnode(req.Job.ExecVnode); err != nil {
			return fmt.Errorf("job.exec_vnode: %w", err)
		}
	}
	return nil
}
