package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

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
	parent  bool
	session bool
	command []string
}

func (c *cli) attachCommand() *cobra.Command {
	var o attachOptions
	cmd := &cobra.Command{
		Use:   "attach [-j JOB] [-m PORT] (-p PID | [-P] [-s] CMD [ARG...])",
		Short: "Take a process, with its session, into a job, or run a command in one",
		Long: `Take the process PID and the processes of its session into JOB, or take the calling process in and run CMD. Options, messages and
exit status are those of pbs_attach, and the program answers to that name as well. Without -j, it is the only job
that the process's user has on this host. Only root and the owner of a job can do that, the owner with own processes.`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args
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
	return cmd
}

func (c *cli) attach(cmd *cobra.Command, o attachOptions) error {
	pid, err := o.check()
	if err != nil {
		return misuse(fmt.Errorf("attach: %w", err))
	}
	if o.session {
		return c.attachInSession(o)
	}
	client, err := api.Dial(c.socket)
	if err != nil {
		return fmt.Errorf("attach: tm_attach: TM_ESYSTEM: %w", err)
	}
	defer client.Close()
	if o.pid == "" {
		pid = os.Getpid()
	}
	attached, err := client.Attach(cmd.Context(), o.job, pid)
	if err != nil {
		return fmt.Errorf("attach: tm_attach: %s: %w", tmError(err), err)
	}
	if o.pid != "" {
		return nil
	}
	if o.parent {
		if _, err := client.Attach(context.Background(), attached.Job, os.Getppid()); err != nil {
			fmt.Fprintf(os.Stderr, "hookhost: attach: tm_attach parent: %s: %v\n", tmError(err), err)
		}
	}
	return o.exec(attached.Outcome)
}

// check words misuse as pbs_attach does.
func (o *attachOptions) check() (pid int, err error) {
	if o.port != "" {
		if n, err := strconv.Atoi(o.port); err != nil || n <= 0 || n > 65535 {
			return 0, fmt.Errorf("bad port: %s", o.port)
		}
	}
	if o.pid != "" {
		if pid, err = strconv.Atoi(o.pid); err != nil || pid <= 1 {
			return 0, fmt.Errorf("bad pid: %s", o.pid)
		}
	}
	if o.job != "" {
		if err := hostapi.CheckJobID(o.job); err != nil {
			return 0, err
		}
	}
	switch {
	case o.pid != "" && (o.session || o.parent || len(o.command) > 0):
		return 0, errors.New("cannot specify pid and session|parent|command")
	case o.pid == "" && len(o.command) == 0:
		return 0, errors.New("must specify pid or command")
	}
	return pid, nil
}

// exec becomes the command, which is in the job already, with what hooks say of its environment.
func (o *attachOptions) exec(out *hostapi.Outcome) error {
	path, err := exec.LookPath(o.command[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return &exitError{status: 255, err: fmt.Errorf("attach: %w", err)}
	}
	// MPICH 1 starts its processes in a group of their own otherwise, as pbs_attach knows.
	os.Setenv("MPICH_PROCESS_GROUP", "no")
	for name, value := range out.SetEnv {
		os.Setenv(name, value)
	}
	for _, name := range out.UnsetEnv {
		os.Unsetenv(name)
	}
	err = syscall.Exec(path, o.command, os.Environ())
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
		switch e.Kind {
		case api.KindTMNotFound, api.KindTMNoProc, api.KindTMOwner, api.KindTMHook:
			return e.Kind
		}
	}
	return "TM_ESYSTEM"
}
