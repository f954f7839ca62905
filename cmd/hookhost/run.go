package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	pbshook "github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/daemon"
	"github.com/hookhost/hookhost/internal/mom"
	"github.com/hookhost/hookhost/internal/openpbs"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/settings"
	"github.com/hookhost/hookhost/internal/spelling"
)

// runOptions holds the request and the options of its report.
type runOptions struct {
	mom.Request
	report string
	umask  int // of the caller, for the job
}

func (c *cli) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [-l RESOURCES]... [-N NAME] [-u USER] [OPTION...] -- CMD [ARG...]",
		Short: "Run a command as a job, with all its events",
		Long: `Run CMD as a job on this host. The job is confined to its request, its usage is
recorded, and it is cleaned up afterwards. CMD's output is passed through
unchanged. When the job has ended, its report goes to standard error.

-l takes what qsub takes, for example -l ncpus=2,mem=64mb,ngpus=1, or
-l select=1:ncpus=2:mem=64mb -l walltime=00:10:00. A resource must be known to
PBS, or be in a [[device]] of the configuration or in pbs_mom's
mom_priv/hooks/resourcedef, the server's list of custom resources. All others
are refused.

When its walltime runs out, the job gets SIGTERM and, after the grace, SIGKILL.
It can ask for a warning signal before that:

  -l walltime=01:00:00           one hour; suspended time does not count
  -l walltime_signal=USR1@300    SIGUSR1 to all processes 300 seconds before
  -l walltime_signal=B:USR1@300  the same, but only to CMD
  -l kill_delay=60               60 seconds from SIGTERM to SIGKILL

The daemon manages the job. If 'hookhost run' is killed, the daemon ends the
job. If 'hookhost run' was started with SIGHUP or SIGINT ignored, as by nohup,
it ignores them too, but CMD does not.

CMD has the caller's umask, environment and open files. With -u, CMD runs as
another user, with that user's HOME. It then gets only PATH, TZ, HOOKHOST_*,
and the variables of terminal and language. Of the open files it gets only
standard input, output and error.

Exit status: CMD's; 128+N if signal N ended it; 2 if a resource or value does
not exist, so that no job begins; 125 if a hook rejected the job, as when the
node has no room, or if hookhost itself failed; 126 if CMD could not be run; 127
if CMD was not found.`,
		Example: `  hookhost run -l select=1:ncpus=2:mem=64mb -l walltime=00:10:00 -- make -j2
  hookhost run -u alice -l select=1:ncpus=4:mpiprocs=4:mem=8gb -- mpirun ./a.out`,
		DisableFlagsInUseLine: true,
		Args:                  nArgs(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := noEmpty(cmd, nil); err != nil { // must not mean root
				return err
			}
			o.Command = args
			return c.run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringArrayVarP(&o.Resources, "resource", "l", nil, "`RESOURCES`, as for qsub")
	f.StringVarP(&o.Name, "name", "N", "", "the job's `NAME` (default: CMD's name)")
	f.StringVarP(&o.User, "user", "u", "", "run as this `USER`")
	f.StringVar(&o.ID, "job", "", "the job's `ID` (default: the next number of this node)")
	f.StringVar(&o.report, "report", "text", "report's `FORMAT`: text, json, html, csv, pbs or none")
	return cmd
}

func (c *cli) run(ctx context.Context, o runOptions) error {
	var format report.Format
	if o.report != "none" {
		var err error
		if format, err = formatNamed(o.report, stderr); err != nil {
			err = spelling.Unknown("format", o.report, append(report.FormatNames(), "none"))
			return misuse(fmt.Errorf("run: --report: %w", err))
		}
	}
	job, err := o.Check()
	if err != nil {
		return misuse(fmt.Errorf("run: %w", err))
	}
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if unknown := mom.Unknown(job, knownTo(cfg)); len(unknown) > 0 {
		return misuse(fmt.Errorf("run: Unknown resource: %s: not known to PBS or the configuration: see '%s'",
			strings.Join(unknown, ", "), "hookhost run --help"))
	}
	if os.Geteuid() != 0 {
		return &exitError{exitHostFailed, errors.New("run: only root may manage cgroups: run it as root")}
	}
	o.umask = unix.Umask(0o022) // for files created for jobs, as in pbs_mom
	if job.Owner.UID != os.Geteuid() {
		if err := daemon.CloseInherited(); err != nil {
			return &exitError{exitHostFailed, fmt.Errorf("run: %w", err)}
		}
	}
	status, err := c.runJob(ctx, cfg, o, job, format)
	if err != nil {
		return &exitError{exitHostFailed, err}
	}
	return &exitError{status: status}
}

// knownTo returns a function that reports whether a resource is known. It may be known to PBS or
// from the configuration. The server may also have sent it to this host's pbs_mom as a custom
// resource.
func knownTo(cfg *config.File) func(name string) bool {
	var custom openpbs.Custom
	if home, err := cfg.OpenPBS.MoMHome(); err == nil {
		text, _ := os.ReadFile(pbshook.HooksOf(home).Resources())
		custom = openpbs.ParseResourcedef(text)
	}
	return func(name string) bool {
		for resource := range custom {
			if strings.EqualFold(resource, name) {
				return true
			}
		}
		return cfg.KnowsResource(name)
	}
}

// stopSelf stops this process, as the shell that sent ^Z expects, and returns when it is continued.
// The signal may arrive after the call that sends it, because another thread can get it.
func stopSelf() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	if unix.Kill(os.Getpid(), unix.SIGSTOP) == nil {
		<-continued
	}
}

// runJob walks the job through its events and writes its report.
func (c *cli) runJob(
	ctx context.Context, cfg *config.File, o runOptions, job *hostapi.Job, format report.Format,
) (int, error) {
	log := newLog(cfg)
	if !log.IsLevelEnabled(logrus.DebugLevel) {
		log.SetLevel(logrus.FatalLevel) // standard error belongs to the job; important messages come as an error, once
	}
	name, err := settings.Node(cfg)
	if err != nil {
		return 0, err
	}
	link, err := daemon.Open(c.Socket, log)
	if err != nil {
		return 0, err
	}
	defer link.Close()
	if job.ID == "" {
		if job.ID, err = link.NewJobID(ctx); err != nil {
			return 0, err
		}
	}
	spec, err := o.Spec(job, name, os.Environ())
	if err != nil {
		return 0, err
	}
	spec.Stdin, spec.Stdout, spec.Stderr = os.Stdin, os.Stdout, os.Stderr
	spec.AuxDir, spec.Namespaces, spec.Umask = c.Aux(), c.Namespaces(), o.umask
	signals := make(chan os.Signal, 16)
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGTSTP, unix.SIGCONT, unix.SIGWINCH} {
		if signal.Ignored(sig) { // by nohup, or by a shell that runs this in the background
			signal.Notify(make(chan os.Signal, 1), sig) // the program has the default action, as under pbs_mom
			continue
		}
		signal.Notify(signals, sig)
	}
	defer signal.Stop(signals)
	// A line for the job may come after the reader of standard error has gone. It must not end the
	// job. The program has its own SIGPIPE.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	spec.Signals = signals
	spec.Stop = stopSelf
	result, err := mom.Run(ctx, link, spec)
	if result.Reject != nil {
		return 0, errors.Join(fmt.Errorf("job %s: %s", job.ID, result.Reject.Message), err)
	}
	if err != nil && !result.Started && result.ExitStatus == mom.ExitFailed {
		return 0, err
	}
	if err != nil { // the exit status is the job's, or as in a shell if the program was not run
		fmt.Fprintf(stderr, "hookhost: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if format != nil {
		err := writeRunReport(ctx, link, job.ID, format)
		if err != nil && (result.Started || !errors.Is(err, api.ErrNotFound)) { // an aborted job has no report
			fmt.Fprintf(stderr, "hookhost: report of job %s: %v\n", job.ID, err)
		}
	}
	return result.ExitStatus, nil
}

// writeRunReport writes the report to standard error, beginning on a new line. The job may have
// ended in the middle of a line.
func writeRunReport(ctx context.Context, link *daemon.Link, id string, format report.Format) error {
	b, err := link.Report(context.WithoutCancel(ctx), id)
	if err != nil {
		return err
	}
	r, err := report.FromArchive(b)
	if err != nil {
		return err
	}
	fmt.Fprintln(stderr)
	return format(stderr, iter.Seq[*report.Report](func(yield func(*report.Report) bool) { yield(r) }))
}
