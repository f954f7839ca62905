package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/settings"
	"github.com/hookhost/hookhost/internal/tm"
)

// attachOptions are the options of pbs_attach.
type attachOptions struct {
	job     string
	port    string
	pid     string
	host    string
	parent  bool
	session bool
	version bool
	command []string
}

// pbsAttachUsage is the text that pbs_attach prints after an error in its arguments.
const pbsAttachUsage = `usage: pbs_attach [-j jobid] [-m port] -p pid
       pbs_attach [-j jobid] [-m port] [-P] [-s] cmd [arg1 ...]
       pbs_attach --version
`

func (c *cli) attachCommand() *cobra.Command {
	var o attachOptions
	cmd := &cobra.Command{
		Use:   "attach [-j JOB] [-m PORT] (-p PID | [-P] [-s] CMD [ARG...])",
		Short: "Add a process and its session to a job, or run a command in a job",
		Long: `Add the process PID and the other processes of its session to JOB. With CMD,
add the calling process to JOB and run CMD. Options, messages and exit status
are those of pbs_attach, and the program also works under that name. JOB may be
12 for 12.server. Without -j, JOB is the only job that the process's user has
on this host.

Only root and the job's owner may add processes, and only processes of the
owner. If the daemon is restarting or busy with other attaches, the command
waits for it for up to 10 seconds.

To add a process on another host of the job, attach it there:

  pbs_tmrsh HOST pbs_attach -j JOB -p PID

In a container with a separate pid namespace, CMD runs in the job as usual.
Other processes of the container cannot be added with -p or -P.`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args
			if o.version {
				c.printVersion()
				return nil
			}
			return c.attach(cmd, o)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // arguments after CMD belong to CMD
	f.StringVarP(&o.job, "job", "j", "", "the `JOB`, by its id or number")
	f.StringVarP(&o.port, "port", "m", "", "MoM's `PORT`; accepted for compatibility with pbs_attach and ignored")
	f.StringVarP(&o.pid, "pid", "p", "", "the process `PID` to add")
	f.BoolVarP(&o.parent, "parent", "P", false, "also add the session of the parent process")
	f.BoolVarP(&o.session, "session", "s", false, "run CMD in a new session")
	f.StringVarP(&o.host, "host", "h", "", "the `HOST` of the process; only this host is accepted, see above")
	f.BoolP("cmd", "c", false, "accepted for compatibility with pbs_attach and ignored")
	f.Bool("help", false, "help for attach") // without -h, which is the host in pbs_attach
	f.BoolVar(&o.version, "version", false, "print the version")
	return cmd
}

// attach does everything that cmd/pbs-attach leaves to it, or the whole attach if called by its own
// name.
func (c *cli) attach(cmd *cobra.Command, o attachOptions) error {
	var err error
	pid, wrong := o.check()
	if len(wrong) > 0 && isPBS(c.called) { // one line each, without a name in front
		for _, err := range wrong {
			fmt.Fprintln(stderr, err)
		}
		fmt.Fprint(stderr, pbsAttachUsage)
		return &exitError{status: exitMisuse}
	}
	if len(wrong) > 0 {
		return misuse(fmt.Errorf("attach: %w", errors.Join(wrong...)))
	}
	if here, name := c.isHere(o.host); !here {
		return attachError(fmt.Errorf("host %s: this is %s: run 'pbs_tmrsh %[1]s pbs_attach' in the job", o.host, name))
	}
	if o.session {
		return c.attachInSession(o)
	}
	if o.pid == "" {
		pid = os.Getpid()
	}
	if o.job, err = tm.WholeID(cmd.Context(), c.Socket, o.job); err != nil {
		return attachError(err)
	}
	attached, err := tm.Attach(cmd.Context(), c.Socket, o.job, pid)
	if err != nil {
		return attachError(err)
	}
	if o.pid != "" {
		return nil
	}
	if o.parent {
		if _, err := tm.Attach(context.Background(), c.Socket, attached.Job, os.Getppid()); err != nil {
			fmt.Fprintf(stderr, "hookhost: attach: tm_attach parent: %s: %v\n", tm.ErrorName(err), err)
		}
	}
	err = tm.Exec(o.command, os.Environ(), attached.Outcome)
	return &exitError{status: 255, err: fmt.Errorf("attach: %w", err)}
}

// attachError returns an error in pbs_attach's words.
func attachError(err error) error {
	return fmt.Errorf("attach: tm_attach: %s: %w", tm.ErrorName(err), err)
}

// check returns all errors in the options, in pbs_attach's words.
func (o *attachOptions) check() (pid int, wrong []error) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	var err error
	if o.pid != "" {
		if pid, err = strconv.Atoi(o.pid); err != nil || pid <= 1 { // nobody may attach the first process
			say("bad pid: %s", o.pid)
		}
	}
	if o.port != "" {
		if n, err := strconv.Atoi(o.port); err != nil || n <= 0 || n > 65535 {
			say("bad port: %s", o.port)
		}
	}
	if o.job != "" {
		if err := hostapi.CheckJobID(o.job); err != nil {
			wrong = append(wrong, err)
		}
	}
	switch {
	case o.pid == "" && len(o.command) == 0:
		say("must specify pid or command")
	case o.pid != "":
		if o.session {
			say("cannot specify pid and session")
		}
		if o.parent {
			say("cannot specify pid and parent")
		}
		if len(o.command) > 0 {
			say("cannot specify pid and command")
		}
	}
	return pid, wrong
}

// isHere reports whether a host is this one, and returns this host's name.
func (c *cli) isHere(host string) (here bool, name string) {
	names := []string{tm.Here()}
	if cfg, err := c.load(); err == nil { // else the daemon's counts: somebody may be writing the file
		if name, err := settings.Node(cfg); err == nil {
			names = append(names, name)
		}
	}
	own := func(name string) bool { return tm.IsHost(host, name) }
	here = host == "" || host == "localhost" || slices.ContainsFunc(names, own)
	return here, names[len(names)-1]
}

// attachInSession attaches in a new session and waits for that.
func (c *cli) attachInSession(o attachOptions) error {
	args := []string{"attach", "--socket", c.Socket}
	if o.job != "" {
		args = append(args, "-j", o.job)
	}
	if o.parent {
		args = append(args, "-P")
	}
	status, err := tm.InSession(append(append(args, "--"), o.command...))
	if err != nil {
		status = 255
	}
	return &exitError{status: status, err: err}
}
