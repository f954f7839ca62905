package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/mom"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/report"
)

// runOptions are what the user said.
type runOptions struct {
	resources []string
	name      string
	job       string
	user      string
	report    string
	hosts     []string
	command   []string
}

func (c *cli) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [-l RES]... [--host HOST]... [-N NAME] [-u USER] [--job ID] [--report text|json|none] -- CMD [ARG...]",
		Short: "Run a command as a job, through every event",
		Long: `Run CMD as a job on this host: confined, accounted, and nothing left of it afterwards. Its output is passed through untouched; the
report goes to standard error when it has ended. -l takes what qsub takes (-l select=1:ncpus=2:mem=64mb -l walltime=00:10:00, or
-l ncpus=2,mem=64mb,ngpus=1). When its walltime is over the job gets SIGTERM and, after the grace, SIGKILL; it can have a signal before that:

  -l walltime=01:00:00               one hour, without the time in which the job is suspended
  -l walltime_signal=USR1@300        SIGUSR1 to all processes 300 seconds before its end; B:USR1@300: to CMD alone
  -l kill_delay=60                   60 seconds from SIGTERM to SIGKILL

The job is the daemon's, and ends when 'hookhost run' is killed. Where no daemon runs, one is started that goes seconds after
its last job.

CMD has the caller's umask, environment and open files. With -u CMD is another user's: HOME is that user's, and of
the environment CMD gets PATH, TZ, HOOKHOST_* and what terminal and language are. Of the open files CMD gets standard
input, output and error.

--host, once for each host, runs the job on several. The first is this one, where CMD is started; the chunks of select go to the hosts in
turn. The others need a daemon, and each needs [sister] in its configuration (docs/sisters.md). CMD starts its processes on the others itself, as mpirun does;
'hookhost remsh HOST' is there for what does not. When one host rejects the job it runs on none.

Exit status: CMD's; 128+N when signal N ended it; 125 when hookhost failed or a hook rejected the job; 126 and 127 when
CMD could not be run or was not found.`,
		Example: `  hookhost run -l select=1:ncpus=2:mem=64mb -l walltime=00:10:00 -- make -j2
  hookhost run -u alice --host n1 --host n2 --host n3 -l select=3:ncpus=4:mpiprocs=4:mem=8gb -- mpirun ./solver`,
		DisableFlagsInUseLine: true,
		Args:                  nArgs(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args
			return c.run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringArrayVarP(&o.resources, "resource", "l", nil, "resources, as for qsub")
	f.StringVarP(&o.name, "name", "N", "", "the job's name; CMD's otherwise")
	f.StringArrayVar(&o.hosts, "host", nil, "a host of the job, this one first; several by comma")
	f.StringVarP(&o.user, "user", "u", "", "run as this user")
	f.StringVar(&o.job, "job", "", "the job's id; the next number of this node otherwise")
	f.StringVar(&o.report, "report", "text", "text, json or none")
	return cmd
}

func (c *cli) run(ctx context.Context, o runOptions) error {
	format, job, err := o.check()
	if err != nil {
		return misuse(err)
	}
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return &exitError{exitHostFailed, errors.New("run: cgroups are root's: run it as root")}
	}
	c.umask = ownUmask()
	if job.Owner.UID != os.Geteuid() {
		if err := withholdInherited(); err != nil {
			return &exitError{exitHostFailed, fmt.Errorf("run: %w", err)}
		}
	}
	tellUnknown(stderr, cfg, job)
	status, err := c.runJob(ctx, cfg, o, job, format)
	if err != nil {
		return &exitError{exitHostFailed, err}
	}
	return &exitError{status: status}
}

// check makes a job of what the user said. It touches nothing.
func (o *runOptions) check() (report.Format, *hostapi.Job, error) {
	var format report.Format
	if o.report != "none" {
		var err error
		if format, err = report.FormatNamed(o.report); err != nil {
			return nil, nil, fmt.Errorf("run: --report: %w", err)
		}
	}
	if o.job != "" {
		if err := hostapi.CheckJobID(o.job); err != nil {
			return nil, nil, fmt.Errorf("run: %w", err)
		}
	}
	owner, err := lookUpOwner(o.user)
	if err != nil {
		return nil, nil, fmt.Errorf("run: %w", err)
	}
	request, err := pbs.ParseResourceList(o.resources...)
	if err != nil {
		return nil, nil, fmt.Errorf("run: -l: %w", hint(err, o.resources))
	}
	if o.hosts, err = splitHosts(o.hosts); err == nil {
		err = checkChunks(o.hosts, request.Select)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("run: %w", err)
	}
	delay, err := takeKillDelay(request.Job)
	if err != nil {
		return nil, nil, fmt.Errorf("run: -l: %w", err)
	}
	job := &hostapi.Job{
		ID: o.job, Name: o.name, Owner: owner, RunCount: 1, MotherSuperior: true, Queue: "run",
		Schedselect: pbs.FormatSelect(request.Select), ResourceList: hostapi.Resources(request.Job), KillDelay: delay,
	}
	if job.Name == "" {
		job.Name = baseName(o.command[0])
	}
	return format, job, nil
}

// takeKillDelay takes kill_delay out of what a job asks for: in PBS it is no resource but an attribute of the job's queue. Its unit is
// seconds, and a part of one counts as a whole. Nil without one.
func takeKillDelay(asked map[string]string) (*int, error) {
	const name = "kill_delay"
	text, there := asked[name]
	if !there {
		return nil, nil
	}
	delete(asked, name)
	d, err := pbs.ParseDuration(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	seconds := int((d + time.Second - 1) / time.Second)
	return &seconds, nil
}

func baseName(command string) string {
	return command[strings.LastIndexByte(command, '/')+1:]
}

// stopSelf stops this process, as the shell that sent ^Z expects, and returns when it was continued. The signal to
// oneself may come after the call that sends it: another thread can be the one that takes it.
func stopSelf() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	if unix.Kill(os.Getpid(), unix.SIGSTOP) == nil {
		<-continued
	}
}

// lookUpOwner returns the user that the job runs as; "" is the caller.
func lookUpOwner(name string) (hostapi.Owner, error) {
	u, err := user.Current()
	if err != nil { // it tells of cgo and $USER
		err = fmt.Errorf("uid %d: no such user in passwd", os.Getuid())
	}
	if name != "" {
		u, err = user.Lookup(name)
	}
	if err != nil {
		return hostapi.Owner{}, err
	}
	uid, uerr := strconv.Atoi(u.Uid)
	gid, gerr := strconv.Atoi(u.Gid)
	return hostapi.Owner{User: u.Username, UID: uid, GID: gid}, errors.Join(uerr, gerr)
}

// runJob walks the job through its events and writes its report.
func (c *cli) runJob(ctx context.Context, cfg *config.File, o runOptions, job *hostapi.Job, format report.Format) (int, error) {
	log := newLog(cfg)
	if !log.IsLevelEnabled(logrus.DebugLevel) {
		log.SetLevel(logrus.FatalLevel) // standard error is the job's; what matters comes as an error, once
	}
	name, err := nodeName(cfg)
	if err != nil {
		return 0, err
	}
	hosts, err := jobHosts(o.hosts, name)
	if err != nil {
		return 0, err
	}
	if len(hosts) > 1 && !cfg.Sister.Configured() {
		return 0, errors.New("run: --host: this host works with no other: set ca, cert and key in [sister] (see docs/sisters.md)")
	}
	engine, err := c.openEngine(ctx, cfg, log)
	if err != nil {
		return 0, err
	}
	defer engine.Close()
	if job.ID == "" {
		if job.ID, err = engine.newJobID(ctx); err != nil {
			return 0, err
		}
	}
	spec, err := c.spec(o, job, hosts)
	if err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGCONT, unix.SIGWINCH)
	defer signal.Stop(signals)
	// Nobody may be reading standard error when a line for the job comes: that is no reason to end the job. The program has its own SIGPIPE.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	spec.Signals, spec.Reconnect, spec.Notices = signals, engine.reconnect, engine.notices
	spec.Stop = stopSelf
	result, err := mom.Run(ctx, engine.client, spec)
	if result.Reject != nil {
		return 0, errors.Join(fmt.Errorf("job %s: %s", job.ID, result.Reject.Message), err)
	}
	if err != nil && !result.Started && result.ExitStatus != 126 && result.ExitStatus != 127 {
		return 0, err
	}
	if err != nil { // the exit status is the job's, or what a shell has for a program that cannot be run
		fmt.Fprintf(stderr, "hookhost: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if format != nil {
		if err := writeRunReport(ctx, engine.last(), job.ID, format); err != nil {
			fmt.Fprintf(stderr, "hookhost: report of job %s: %v\n", job.ID, err)
		}
	}
	return result.ExitStatus, nil
}

// writeRunReport writes the report to standard error, on lines of its own: the job may have ended in the middle of one.
func writeRunReport(ctx context.Context, client *api.Client, id string, format report.Format) error {
	b, err := client.Report(context.WithoutCancel(ctx), id)
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
