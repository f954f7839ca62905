package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
)

// attachOptions are pbs_attach's.
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

// pbsAttachUsage is what pbs_attach says to misuse, after what is wrong.
const pbsAttachUsage = `usage: pbs_attach [-j jobid] [-m port] -p pid
       pbs_attach [-j jobid] [-m port] [-P] [-s] cmd [arg1 ...]
       pbs_attach --version
`

func (c *cli) attachCommand() *cobra.Command {
	var o attachOptions
	cmd := &cobra.Command{
		Use:   "attach [-j JOB] [-m PORT] (-p PID | [-P] [-s] CMD [ARG...])",
		Short: "Take a process, with its session, into a job, or run a command in one",
		Long: `Take the process PID and the processes of its session into JOB, or take the calling process in and run CMD. Options, messages and
exit status are those of pbs_attach, and the program answers to that name as well. Without -j, it is the only job
that the process's user has on this host. Only root and the owner of a job can do that, with processes of the owner's. A daemon that is
restarted at the moment, or has too many attaches at once, is waited for, 10 seconds at most.

-h HOST attaches a process of another host of the job: its number is the one that it has there, and JOB has to be named. That host looks for itself
whether the process is the job's, such as by its environment or its parents. Both need a daemon and [sister] in their configuration
(docs/sisters.md). A command is run on another host by 'hookhost remsh'.

In a container with a pid namespace of its own CMD runs in the job as anywhere. Other processes there cannot be
named by PID, nor taken in by -P.`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args
			if o.version && isPBS(c.called) {
				fmt.Fprintln(stdout, "pbs_version =", version)
				return nil
			}
			if o.version {
				fmt.Fprintln(stdout, "hookhost", version)
				return nil
			}
			return c.attach(cmd, o)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows CMD is CMD's
	f.StringVarP(&o.job, "job", "j", "", "the job's id")
	f.StringVarP(&o.port, "port", "m", "", "MoM's port; accepted for pbs_attach's sake and not used")
	f.StringVarP(&o.pid, "pid", "p", "", "the process to take in")
	f.BoolVarP(&o.parent, "parent", "P", false, "take in the parent's session too")
	f.BoolVarP(&o.session, "session", "s", false, "run CMD in a session of its own")
	f.StringVarP(&o.host, "host", "h", "", "the host of the process")
	f.BoolP("cmd", "c", false, "accepted for pbs_attach's sake and not used")
	f.Bool("help", false, "help for attach") // without its letter, which is pbs_attach's for the host
	f.BoolVar(&o.version, "version", false, "print the version")
	return cmd
}

// attach does what cmd/pbs-attach leaves to it, and all of it where it was called by its own name.
func (c *cli) attach(cmd *cobra.Command, o attachOptions) error {
	pid, wrong := o.check()
	if len(wrong) > 0 && isPBS(c.called) { // a line each, and no name before them
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
		return c.attachThere(cmd.Context(), o, pid, name)
	}
	if o.session {
		return c.attachInSession(o)
	}
	if o.pid == "" {
		pid = os.Getpid()
	}
	attached, err := c.attachPatiently(cmd.Context(), o.job, pid)
	if err != nil {
		return fmt.Errorf("attach: tm_attach: %s: %w", tmError(err), err)
	}
	if o.pid != "" {
		return nil
	}
	if o.parent {
		if _, err := c.attachPatiently(context.Background(), attached.Job, os.Getppid()); err != nil {
			fmt.Fprintf(stderr, "hookhost: attach: tm_attach parent: %s: %v\n", tmError(err), err)
		}
	}
	return o.exec(attached.Outcome)
}

// attachPatiently attaches a process, for 10 seconds again and again where time may help: a rank
// that could not be attached ends its job. To attach twice does no harm.
func (c *cli) attachPatiently(ctx context.Context, job string, pid int) (api.Attached, error) {
	for pause, until := 10*time.Millisecond, time.Now().Add(10*time.Second); ; pause = min(2*pause, 200*time.Millisecond) {
		attached, err := c.attachOnce(ctx, job, pid)
		if err == nil || !c.mayPass(err) || time.Now().After(until) {
			return attached, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return attached, err
		}
	}
}

func (c *cli) attachOnce(ctx context.Context, job string, pid int) (api.Attached, error) {
	client, err := api.Dial(c.socket)
	if err != nil {
		return api.Attached{}, err
	}
	defer client.Close()
	return client.Attach(ctx, job, pid)
}

// mayPass tells whether a failed call is worth another try. A daemon that is restarted, as for an
// upgrade, is back at once; it may also have gone in the middle of the call, or be too busy.
func (c *cli) mayPass(err error) bool {
	if errors.Is(err, api.ErrNoHost) {
		return api.HasServed(c.socket)
	}
	if hostapi.KindOf(err) == hostapi.KindBusy || errors.Is(err, api.ErrSilent) {
		return true
	}
	broken := []error{io.EOF, io.ErrUnexpectedEOF, unix.ECONNRESET, unix.EPIPE}
	return slices.ContainsFunc(broken, func(b error) bool { return errors.Is(err, b) })
}

// check returns all that is wrong, in pbs_attach's words.
func (o *attachOptions) check() (pid int, wrong []error) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	var err error
	if o.pid != "" {
		if pid, err = strconv.Atoi(o.pid); err != nil || pid <= 1 { // the first process is nobody's to attach
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

// isHere tells whether a host is this one, and how this one is named.
func (c *cli) isHere(host string) (here bool, name string) {
	names := []string{hereName()}
	if cfg, err := c.load(); err == nil { // else the daemon's counts, not what somebody is writing just now
		if name, err := nodeName(cfg); err == nil {
			names = append(names, name)
		}
	}
	here = host == "" || host == "localhost" || slices.ContainsFunc(names, func(name string) bool { return means(host, name) })
	return here, names[len(names)-1]
}

// attachThere has another host of the job attach a process of its own, by way of the daemon here.
func (c *cli) attachThere(ctx context.Context, o attachOptions, pid int, here string) error {
	if o.pid == "" {
		return fmt.Errorf("attach: tm_attach: TM_ESYSTEM: host %s: this is %s, where CMD is to run: 'hookhost remsh %s CMD' runs it there", o.host, here, o.host)
	}
	client, err := api.Dial(c.socket)
	if err != nil {
		return fmt.Errorf("attach: tm_attach: TM_ESYSTEM: %w", err)
	}
	defer client.Close()
	if _, err := client.AttachOn(ctx, o.host, o.job, pid); err != nil {
		return fmt.Errorf("attach: tm_attach: %s: %w", tmError(err), err)
	}
	return nil
}

// exec becomes the command, which is in the job already, with what hooks say of its environment.
func (o *attachOptions) exec(out *hostapi.Outcome) error {
	path, err := exec.LookPath(o.command[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return &exitError{status: 255, err: fmt.Errorf("attach: %w", err)}
	}
	// MPICH 1 starts its processes in a group of their own otherwise, as pbs_attach knows.
	os.Setenv("MPICH_PROCESS_GROUP", "no")
	applyOutcome(out)
	err = syscall.Exec(path, o.command, os.Environ())
	if errors.Is(err, unix.ENOEXEC) { // a script without an interpreter's name, as execvp(3) takes it
		err = syscall.Exec("/bin/sh", append([]string{"sh", path}, o.command[1:]...), os.Environ())
	}
	return &exitError{status: 255, err: fmt.Errorf("attach: exec %s: %w", path, err)}
}

// attachInSession does the rest in a new session and waits for it: a process cannot leave its session and stay the
// one that its caller waits for.
func (c *cli) attachInSession(o attachOptions) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"attach", "--socket", c.socket}
	if o.job != "" {
		args = append(args, "-j", o.job)
	}
	if o.parent {
		args = append(args, "-P")
	}
	child := exec.Command(self, append(append(args, "--"), o.command...)...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	err = child.Run()
	var exited *exec.ExitError
	switch {
	case errors.As(err, &exited) && exited.Exited():
		return &exitError{status: exited.ExitCode()}
	case errors.As(err, &exited): // pbs_attach's own answer to a signal
		return &exitError{status: 2}
	case err != nil:
		return &exitError{status: 255, err: err}
	}
	return nil
}

// tmError names an error as PBS's task manager does (tm_.h).
func tmError(err error) string {
	var e *api.Error
	if errors.As(err, &e) {
		return e.TM()
	}
	return "TM_ESYSTEM"
}
