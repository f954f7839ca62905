package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/ledger"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/serieslog"
)

func (c *cli) reportCommand() *cobra.Command {
	var format, output string
	cmd := &cobra.Command{
		Use: "report [JOB] [--format FORMAT] [--output FILE]", Args: nArgs(0, 1),
		Short: "Show what a job used, live or finished",
		Long: `Show what a job used, live or finished. Without JOB: every finished job, oldest first; for others than
root, their own, from the daemon.

Exit status: 0; 1 when there is no such report, or it cannot be read. Without JOB, also when some
reports are damaged. All others are shown, and standard error says which lines of the ledger are
damaged.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := formatNamed(format, stdout)
			if err != nil {
				return misuse(err)
			}
			var text bytes.Buffer
			if len(args) == 0 {
				err = c.reportAll(cmd.Context(), f, console{&text})
			} else {
				err = c.reportOne(cmd, args[0], f, console{&text})
			}
			if err != nil && text.Len() == 0 {
				return err
			}
			if output != "" { // not touched before there is something to write
				return errors.Join(err, os.WriteFile(output, text.Bytes(), 0o644))
			}
			_, failed := text.WriteTo(cmd.OutOrStdout())
			return errors.Join(err, failed)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", strings.Join(report.FormatNames(), " or "))
	cmd.Flags().StringVar(&output, "output", "", "write to FILE instead of standard output")
	return cmd
}

func (c *cli) reportOne(cmd *cobra.Command, id string, f report.Format, out io.Writer) error {
	if err := hostapi.CheckJobID(id); err != nil {
		return misuse(fmt.Errorf("report: %w", err))
	}
	b, unread, err := c.reportOf(cmd.Context(), id)
	if err != nil {
		return err
	}
	rep, err := report.FromArchive(b)
	if err != nil {
		return fmt.Errorf("report of job %s: %w", id, err)
	}
	return errors.Join(f(out, func(yield func(*report.Report) bool) { yield(rep) }), unread)
}

// reportOf asks the daemon. If none runs, root gets the report of a finished job from the ledger,
// with the job's series. unread is why that is left out.
func (c *cli) reportOf(ctx context.Context, id string) (text json.RawMessage, unread, err error) {
	if _, err := c.load(); err != nil { // as jobs does
		return nil, nil, err
	}
	client, err := api.Dial(c.Socket)
	if err == nil {
		defer client.Close()
		text, err = client.Report(ctx, id)
		return text, nil, err
	}
	if !errors.Is(err, api.ErrNoHost) || os.Geteuid() != 0 {
		return nil, nil, err
	}
	text, found, err := c.OpenLedger().Last(ctx, id)
	if err == nil && !found {
		err = fmt.Errorf("job %s: no report of it, and no daemon runs that could know of it", id)
	}
	if err != nil {
		return nil, nil, err
	}
	text, unread = serieslog.Join(c.Series(), text)
	return text, unread, nil
}

// reportAll reads the ledger itself, which is root's alone; the daemon reads it to others.
func (c *cli) reportAll(ctx context.Context, f report.Format, out io.Writer) error {
	all := func(yield func(whose string, text json.RawMessage) bool) error {
		entry := func(e ledger.Entry) bool { return yield("of job "+e.Job, e.Report) }
		return c.OpenLedger().All(ctx, ledger.Query{}, entry)
	}
	if os.Geteuid() != 0 {
		client, err := api.Dial(c.Socket)
		if err != nil {
			return fmt.Errorf("report: finished jobs are the daemon's to tell to others than root: %w", err)
		}
		defer client.Close()
		all = func(yield func(whose string, text json.RawMessage) bool) error {
			return client.Reports(ctx, func(text json.RawMessage) bool { return yield("from the daemon", text) })
		}
	}
	var failed error
	var unread []error
	reports := iter.Seq[*report.Report](func(yield func(*report.Report) bool) {
		failed = all(func(whose string, text json.RawMessage) bool {
			rep, err := report.FromArchive(text)
			if err != nil {
				unread = append(unread, fmt.Errorf("report %s: %w", whose, err))
				return true
			}
			return yield(rep)
		})
	})
	return errors.Join(f(out, reports), failed, errors.Join(unread...))
}
