package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hookhost/hookhost/internal/pbs"
)

// exitRemote is the exit status of a remote shell that failed itself, as with rsh and ssh.
const exitRemote = 255

func (c *cli) remshCommand() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "remsh [-n] [-l USER] HOST CMD [ARG...]",
		Short: "Run a command on another host of the job, for MPI launchers",
		Long: `Run CMD inside the calling job on HOST, another host of that job. MPI launchers
use this command as their remote shell, under the name hookhost-remsh. The hook
mpi sets the launchers' variables for that. As with ssh, CMD's words are joined
by spaces and passed to a shell as one line. This program executes PBS's
pbs_tmrsh, so pbs_mom on HOST starts the command as a task of the job.

The command's standard input is empty, and its output goes to the job's. It
does not get signals. The command works only inside a PBS job.

HOST is a name in PBS_NODEFILE, or an address of such a host. USER must be the
caller. Other options that launchers give to ssh and rsh are accepted and
ignored: -f -q -t -T -v -x -X, -i FILE, -o OPTION, -p PORT.

Exit status: CMD's, or 255.`,
		DisableFlagsInUseLine: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return remshError(c.execTMRsh(user, args))
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // tmrshArgs handles options after HOST
	f.StringVarP(&user, "l", "l", "", "")
	for _, letter := range strings.Fields("i o p") {
		f.StringP(letter, letter, "", "")
	}
	for _, letter := range strings.Fields("f n q t T v x X") {
		f.BoolP(letter, letter, false, "")
	}
	for _, letter := range strings.Fields("f i l n o p q t T v x X") { // each is its long name too
		f.Lookup(letter).Hidden = true
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return remshError(fmt.Errorf("%w (see 'hookhost remsh --help')", err))
	})
	return cmd
}

// execTMRsh executes pbs_tmrsh in this process. It returns only if that fails.
func (c *cli) execTMRsh(user string, args []string) error {
	if len(args) == 0 {
		return errors.New("no host (see 'hookhost remsh --help')")
	}
	nodefile, _ := os.ReadFile(os.Getenv("PBS_NODEFILE")) // pbs_tmrsh reports errors in it
	args, err := tmrshArgs(user, args, strings.Fields(string(nodefile)), os.Getenv("PBS_O_SHELL"))
	if err != nil {
		return err
	}
	if os.Getenv("PBS_JOBCOOKIE") == "" {
		return errors.New("PBS_JOBCOOKIE is not set, so PBS's task manager cannot be asked: " +
			"submit the job with qsub, and call this from its script")
	}
	conf, err := c.pbsConf()
	if err != nil {
		return err
	}
	path := filepath.Join(pbs.Exec(conf), "bin/pbs_tmrsh")
	err = &fs.PathError{Op: "exec", Path: path, Err: syscall.Exec(path, args, os.Environ())}
	return fmt.Errorf("%w: check PBS_EXEC in pbs.conf", err)
}

// tmrshArgs turns the arguments of a remote shell into those of pbs_tmrsh. args are [USER@]HOST,
// the options that rsh allows after it, and the words of a command. nodes are the lines of
// PBS_NODEFILE. loginShell may be "".
//
// Open MPI drops the domain of a host, but pbs_tmrsh needs the exact line of PBS_NODEFILE. Open MPI
// writes its command for the user's login shell: in csh's syntax for csh, otherwise in sh's.
func tmrshArgs(user string, args, nodes []string, loginShell string) ([]string, error) {
	host, words := args[0], args[1:]
	if i := strings.LastIndex(host, "@"); i >= 0 {
		user, host = host[:i], host[i+1:]
	}
	for len(words) > 1 && slices.Contains([]string{"-l", "-n", "-p"}, words[0]) {
		switch words[0] {
		case "-l":
			user, words = words[1], words[2:]
		case "-n":
			words = words[1:]
		case "-p":
			words = words[2:]
		}
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("host %s: no command (see 'hookhost remsh --help')", host)
	}
	if i := slices.IndexFunc(nodes, func(line string) bool { return pbs.SameHost(line, host) }); i >= 0 {
		host = nodes[i]
	}
	shell := "/bin/sh"
	if strings.HasSuffix(loginShell, "csh") {
		shell = loginShell
	}
	tmrsh := []string{"pbs_tmrsh"}
	if user != "" { // pbs_tmrsh refuses any user other than the caller
		tmrsh = append(tmrsh, "-l", user)
	}
	return append(tmrsh, host, shell, "-c", strings.Join(words, " ")), nil
}

func remshError(err error) error {
	return &exitError{status: exitRemote, err: fmt.Errorf("remsh: %w", err)}
}
