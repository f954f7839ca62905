package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/pbs"
)

// remshFailed is the status of a remote shell that could not do its part, as with rsh and ssh.
const remshFailed = 255

func (c *cli) remshCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remsh [-j JOB] HOST [-l USER] [-n] CMD [ARG...]",
		Short: "Run a command of a job on another of its hosts, inside the job",
		Long: `Run CMD on HOST, inside the job's cgroup there: what ssh does, and then attach. MPI launchers use it as their remote shell; hook mpi
sets the variables that make them. The program answers to the names hookhost-remsh, pbs_remsh and pbs_tmrsh as well.

CMD's words are joined by spaces and are one line for the user's shell on HOST, as with ssh. Signals, standard input, output and the
exit status pass through; 128+N says that signal N ended CMD. The variables that PBS sets for a job go along. When HOST does not take
the process into the job, CMD is not run. Options are those of ssh and rsh that launchers use: -n -x -X -q -v -f -t -T, -l USER,
-p PORT, -o OPTION, -i FILE, and -r RSH for another remote shell than ssh, which PBS_RSHCOMMAND names as well.

Exit status: CMD's, or 255.`,
		DisableFlagsInUseLine: true,
		DisableFlagParsing:    true, // options end at HOST, and begin again
		RunE: func(cmd *cobra.Command, args []string) error {
			status, err := c.remsh(cmd, args)
			if err != nil && status == 0 {
				status = remshFailed
			}
			return &exitError{status: status, err: err}
		},
	}
}

func (c *cli) remsh(cmd *cobra.Command, args []string) (int, error) {
	a, err := parseRemsh(args)
	if err != nil {
		return remshFailed, fmt.Errorf("remsh: %w (see 'hookhost remsh --help')", err)
	}
	if a.socket != "" {
		c.socket = a.socket
	}
	switch {
	case a.help:
		return 0, cmd.Help()
	case a.version && isPBS(c.called):
		fmt.Fprintln(stdout, "pbs_version =", version)
		return 0, nil
	case a.version:
		fmt.Fprintln(stdout, "hookhost", version)
		return 0, nil
	case a.child:
		return remshFailed, c.remoteChild(os.NewFile(3, "payload"))
	case a.remote != "":
		return c.remote(a.remote, os.Stdin)
	}
	if err := a.check(c.called); err != nil {
		return remshFailed, fmt.Errorf("remsh: %w", err)
	}
	return a.run()
}

// run starts the remote shell and stays between it and the caller until it ends.
func (a *remshArgs) run() (int, error) {
	encoded, err := newPayload(a.job, strings.Join(a.command, " ")).encode()
	if err != nil {
		return 0, err
	}
	ssh, err := a.remoteShell(word(encoded))
	if err != nil {
		return 0, fmt.Errorf("remsh %s: %w", a.host, err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	ssh.Stdin, ssh.Stdout, ssh.Stderr = in, os.Stdout, os.Stderr
	// A ^C of the terminal is for the command over there: ssh would die of it before it could pass it on.
	ssh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Nor is it to die of a signal that all of the job's processes get: the command may have something to save, and its status is wanted. It
	// leaves ignored what it finds ignored (OpenSSH's clientloop.c).
	heard, wanted := make(chan os.Signal, 16), passedOn()
	signal.Ignore(append(forSSHToIgnore(), wanted...)...)
	err = ssh.Start()
	signal.Notify(heard, append(wanted, notIgnored(unix.SIGCONT, unix.SIGTSTP)...)...)
	if err != nil {
		return 0, fmt.Errorf("remsh %s: %w", a.host, err)
	}
	in.Close()
	s := &sender{w: out}
	s.begin(encoded, a.noStdin || isNull(os.Stdin), os.Stdin)
	ended := make(chan error, 1)
	go func() { ended <- ssh.Wait() }()
	s.passOn(heard, ended, ssh.Process)
	status := ssh.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Exited() {
		return remshFailed, fmt.Errorf("remsh %s: %s ended by %v", a.host, filepath.Base(ssh.Path), status.Signal())
	}
	return status.ExitStatus(), nil
}

// remoteShell is the command that starts the other end. It does not depend on the user's shell there: no word of it means anything to
// sh, csh or fish.
func (a *remshArgs) remoteShell(payload string) (*exec.Cmd, error) {
	rsh := strings.Fields(a.rsh)
	if len(rsh) == 0 {
		rsh = strings.Fields(os.Getenv("PBS_RSHCOMMAND"))
	}
	if len(rsh) == 0 {
		rsh = []string{"ssh"}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(self, func(r rune) bool { return r <= ' ' || strings.ContainsRune("'\"\\`$!*?[]{}()<>|&;#~^", r) }) {
		return nil, fmt.Errorf("%q: a path that not every shell takes as it is", self)
	}
	args := rsh[1:]
	if filepath.Base(rsh[0]) == "ssh" {
		if !slices.Contains(a.options, "-X") {
			args = append(args, "-x")
		}
		// Nobody is there to answer a question; a hundred questions would be none either.
		args = append(args, "-T", "-o", "BatchMode=yes")
	}
	args = append(args, a.options...)
	if a.user != "" {
		args = append(args, "-l", a.user)
	}
	if payload == "" {
		payload = "-"
	}
	return exec.Command(rsh[0], append(args, a.host, "exec", self, "remsh", "--remote", payload)...), nil
}

// sender writes frames; several may do so at once. Errors are the other end's death, which ssh's end tells of.
type sender struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sender) send(f frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return writeFrame(s.w, f)
}

// begin sends the payload, if it is too long for a word, before anything else, and then standard input; it does not wait.
func (s *sender) begin(payload []byte, none bool, in io.Reader) {
	s.mu.Lock()
	go func() {
		var err error
		if word(payload) == "" {
			err = writeFrame(s.w, frame{framePayload, payload})
		}
		s.mu.Unlock()
		if err == nil {
			s.pump(none, in)
		}
	}()
}

// pump sends standard input.
func (s *sender) pump(none bool, in io.Reader) {
	for b := make([]byte, 32<<10); !none; {
		n, err := in.Read(b)
		if n > 0 && s.send(frame{frameData, b[:n]}) != nil {
			return
		}
		if err != nil {
			break
		}
	}
	s.send(frame{kind: frameEOF})
}

// passedOn are the signals that go to the command and end nothing here, but for those that the caller ignores, as nohup does.
func passedOn() []os.Signal {
	return notIgnored(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2)
}

func notIgnored(signals ...os.Signal) []os.Signal {
	return slices.DeleteFunc(signals, signal.Ignored)
}

// forSSHToIgnore are further signals by which a job may have itself warned. What they do to this program is nothing either.
func forSSHToIgnore() []os.Signal {
	signals := []os.Signal{unix.SIGALRM, unix.SIGVTALRM, unix.SIGPROF, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGPWR}
	const firstRealTime, lastRealTime = 34, 64 // SIGRTMIN, SIGRTMAX of glibc
	for s := firstRealTime; s <= lastRealTime; s++ {
		signals = append(signals, syscall.Signal(s))
	}
	return signals
}

// insist is how soon a second signal has to follow for the user to be taken to mean it.
const insist = 10 * time.Second

// passOn sends signals to the other end until ssh has ended. Somebody who sends a second SIGINT or SIGTERM is not kept waiting for a host
// that may not answer any more: ssh is killed, and the other end takes its caller for gone.
func (s *sender) passOn(heard <-chan os.Signal, ended <-chan error, ssh *os.Process) {
	queue := make(chan func(), 64)
	defer close(queue)
	go func() { // standard input may hold the stream
		for send := range queue {
			send()
		}
	}()
	var asked time.Time
	for {
		select {
		case <-ended:
			return
		case sig := <-heard:
			name := strings.TrimPrefix(unix.SignalName(sig.(syscall.Signal)), "SIG")
			if sig == unix.SIGTSTP {
				name = "STOP"
			}
			if sig == unix.SIGINT || sig == unix.SIGTERM {
				if !asked.IsZero() && time.Since(asked) < insist {
					ssh.Kill()
				}
				asked = time.Now()
			}
			sent := make(chan struct{})
			select {
			case queue <- func() { s.send(frame{frameSignal, []byte(name)}); close(sent) }:
			default: // nobody has taken the last 64
			}
			if sig == unix.SIGTSTP {
				select {
				case <-sent:
				case <-time.After(time.Second):
				}
				stopSelf()
			}
		}
	}
}

// isNull tells whether f is /dev/null.
func isNull(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3)
}

// means tells whether somebody who names host means the one of that name: by its name, its short
// form or its address.
func means(host, name string) bool {
	if ip := net.ParseIP(host); ip != nil && host != name {
		addrs, err := net.LookupIP(name)
		return err == nil && slices.ContainsFunc(addrs, ip.Equal)
	}
	return pbs.SameHost(name, host)
}
