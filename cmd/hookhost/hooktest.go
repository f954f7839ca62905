package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/conformance"
	"github.com/hookhost/hookhost/internal/pbs"
)

const hookTestHelp = `Test whether a program is a hook that works. The program is started as the
daemon would start it, with CONFIG as its configuration file, and gets the
events of jobs that do not exist. The tests:

  start       the handshake, the configuration, the events; SIGTERM; the end of
              hookhost; by hand
  each event  a correct answer within the alarm, and the same answer when
              - the event comes again
              - the program is killed during the event and started again
              - event and call have a key and a field of a later version
              - the event has 9 MiB

An event that the hook refuses is not tested further. With --job, its job has
what the hook needs: FILE has keys of a Job as JSON (docs/events.md). With
--after, which may be repeated, another hook gets each event first: the hook
devices needs the cgroup that the hook cgroup creates.

The program does for these jobs what it would do for real ones. As root it could
remove what belongs to real ones, so the command is refused to root on a node
that has jobs. Hook cgroup needs the lock that a running daemon holds ("lock
cgroups: ... context deadline exceeded"): stop the daemon first, or set another
[cgroup] prefix in CONFIG. Exit status: 1 unless every result is ok.`

func (c *cli) hookTestCommand() *cobra.Command {
	var asJSON bool
	var alarm time.Duration
	var job string
	var after []string
	cmd := &cobra.Command{
		Use:   "test PROGRAM [CONFIG] [--after HOOK] [--job FILE]",
		Short: "Test whether a program is a hook that works",
		Long:  hookTestHelp, Args: nArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := conformance.Options{Alarm: alarm}
			if alarm < time.Second {
				return misuse(fmt.Errorf("--alarm %v: want a second or more", alarm))
			}
			var err error
			if o.Hook, err = hookOf(args[0], strings.Join(args[1:], "")); err != nil {
				return misuse(err)
			}
			for _, text := range after {
				program, config, _ := strings.Cut(text, "=")
				h, err := hookOf(program, config)
				if err != nil {
					return misuse(fmt.Errorf("--after: %w", err))
				}
				o.After = append(o.After, h)
			}
			if job != "" {
				if o.Job, err = os.ReadFile(job); err != nil {
					return misuse(err)
				}
				if err = conformance.CheckJob(o.Job); err != nil {
					return misuse(fmt.Errorf("--job %s: %w", job, err))
				}
			}
			report, err := c.testHook(cmd.Context(), o)
			if err != nil {
				return fmt.Errorf("hook test: %w", err)
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			} else {
				writeTest(cmd.OutOrStdout(), report)
			}
			if err == nil && !report.Passed {
				err = &exitError{status: 1}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().DurationVar(&alarm, "alarm", 10*time.Second, "`TIME` for the start and for each event")
	cmd.Flags().StringArrayVar(&after, "after", nil,
		"a `HOOK` that gets each event before it: PROGRAM or PROGRAM=CONFIG")
	cmd.Flags().StringVar(&job, "job", "", "`FILE` with keys of the job in the events, JSON")
	return cmd
}

// hookOf reads the configuration of a hook's program, unless its name is "".
func hookOf(program, config string) (h conformance.Hook, err error) {
	h.Program = program
	if config != "" {
		h.Config, err = os.ReadFile(config)
	}
	return h, err
}

// testHook tests a program in a temporary directory, unless jobs of this node are in danger.
func (c *cli) testHook(ctx context.Context, o conformance.Options) (*conformance.Report, error) {
	if err := c.checkNoJobs(ctx); err != nil {
		return nil, err
	}
	var err error
	if o.Node, err = pbs.HostName(); err != nil {
		return nil, err
	}
	if o.Dir, err = os.MkdirTemp("", "hooktest"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(o.Dir)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return conformance.Run(ctx, o)
}

// checkNoJobs refuses to let a program of root believe that no job lives here if one does.
func (c *cli) checkNoJobs(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return nil
	}
	client, err := api.Dial(c.Socket)
	if errors.Is(err, api.ErrNoHost) {
		return nil
	}
	if err != nil {
		return err
	}
	defer client.Close()
	jobs, err := client.Jobs(ctx)
	if err == nil && len(jobs) > 0 {
		err = fmt.Errorf("jobs live on this node: %d. A hook that runs as root may remove what is theirs: "+
			"test it on another node, or as another user", len(jobs))
	}
	return err
}

// writeTest prints a report: a line for each check, with what was found below it.
func writeTest(w io.Writer, r *conformance.Report) {
	fmt.Fprintf(w, "%s\n\n", r.Program)
	for _, c := range r.Checks {
		line := fmt.Sprintf("%-8s %s", c.Result, c.Name)
		if c.Seconds > 0 {
			line = fmt.Sprintf("%-45s %7.1f ms", line, c.Seconds*1000)
		}
		fmt.Fprintln(w, line)
		for _, text := range c.Found {
			fmt.Fprintln(w, "        ", text)
		}
		for _, text := range c.Notes {
			fmt.Fprintln(w, "        ", "note:", text)
		}
	}
	if len(r.Log) > 0 {
		fmt.Fprintf(w, "\nThe log of the program, as hookhost would write it:\n  %s\n", strings.Join(r.Log, "\n  "))
	}
	fmt.Fprintf(w, "\nok %d, untested %d, refused %d, fault %d\n", r.Count(conformance.OK),
		r.Count(conformance.Untested), r.Count(conformance.Refused), r.Count(conformance.Fault))
}
