package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/tm"
)

func (c *cli) remshCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remsh [-j JOB] HOST [-l USER] [-n] CMD [ARG...]",
		Short: "Run a command of a job on another of its hosts, inside the job",
		Long: `Run CMD on HOST, inside the job's cgroup there: as ssh does, and then attach. MPI launchers use it as
their remote shell. Hook mpi sets the variables that make them. The program answers to the names
hookhost-remsh, pbs_remsh and pbs_tmrsh as well.

CMD's words are joined by spaces and are one line for the user's shell on HOST, as with ssh. Signals,
standard input, output and the exit status pass through. 128+N says that signal N ended CMD. The
variables that PBS sets for a job go along. If HOST does not take the process into the job, CMD is
not run. Options are those of ssh and rsh that launchers use: -n -x -X -q -v -f -t -T, -l USER,
-p PORT, -o OPTION, -i FILE. -r RSH is another remote shell than ssh, which PBS_RSHCOMMAND names as
well.

Exit status: CMD's, or 255.`,
		DisableFlagsInUseLine: true,
		DisableFlagParsing:    true, // options end at HOST, and begin again
		RunE: func(cmd *cobra.Command, args []string) error {
			status, err := c.remsh(cmd, args)
			if err != nil && status == 0 {
				status = tm.Failed
			}
			return &exitError{status: status, err: err}
		},
	}
}

func (c *cli) remsh(cmd *cobra.Command, args []string) (int, error) {
	a, err := parseRemsh(args)
	if err != nil {
		return tm.Failed, fmt.Errorf("remsh: %w (see 'hookhost remsh --help')", err)
	}
	if a.socket != "" {
		c.Socket = a.socket
	}
	switch {
	case a.help:
		return 0, cmd.Help()
	case a.version:
		c.printVersion()
		return 0, nil
	case a.child:
		return tm.Failed, tm.Child(c.Socket, os.NewFile(3, "payload"), os.Environ())
	case a.remote != "":
		heard := make(chan os.Signal, 4)
		signal.Notify(heard, unix.SIGHUP, unix.SIGTERM, unix.SIGINT)
		return tm.Remote(c.Socket, a.remote, os.Stdin, heard)
	}
	if err := a.check(c.called); err != nil {
		return tm.Failed, fmt.Errorf("remsh: %w", err)
	}
	return a.run()
}

// run starts the remote shell and stays between it and the caller until it ends.
//
// A signal that all of the job's processes get must not end the remote shell. The command may have
// something to save, and its status is wanted. ssh leaves ignored what it finds ignored (OpenSSH's
// clientloop.c).
func (a *remshArgs) run() (int, error) {
	shell := &tm.Shell{
		Host: a.host, User: a.user, Job: a.job, Program: strings.Fields(a.rsh), Options: a.options, Command: a.command,
		NoStdin: a.noStdin, Env: os.Environ(),
	}
	if len(shell.Program) == 0 {
		shell.Program = strings.Fields(os.Getenv("PBS_RSHCOMMAND"))
	}
	if len(shell.Program) == 0 {
		shell.Program = []string{"ssh"}
	}
	heard, wanted := make(chan os.Signal, 16), passedOn()
	signal.Ignore(append(forSSHToIgnore(), wanted...)...)
	out, err := shell.Start()
	signal.Notify(heard, append(wanted, notIgnored(unix.SIGCONT, unix.SIGTSTP)...)...)
	if err != nil {
		return 0, err
	}
	return shell.Wait(out, heard, stopSelf)
}

// passedOn returns the signals that go to the command and end nothing here, but for those that the
// caller ignores, as nohup does.
func passedOn() []os.Signal {
	return notIgnored(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2)
}

func notIgnored(signals ...os.Signal) []os.Signal {
	return slices.DeleteFunc(signals, signal.Ignored)
}

// forSSHToIgnore returns further signals by which a job may have itself warned. They do nothing to
// this program either.
func forSSHToIgnore() []os.Signal {
	signals := []os.Signal{unix.SIGALRM, unix.SIGVTALRM, unix.SIGPROF, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGPWR}
	const firstRealTime, lastRealTime = 34, 64 // SIGRTMIN, SIGRTMAX of glibc
	for s := firstRealTime; s <= lastRealTime; s++ {
		signals = append(signals, syscall.Signal(s))
	}
	return signals
}
