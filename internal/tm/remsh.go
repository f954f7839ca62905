package tm

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Failed is the status of a remote shell that could not do its part, as with rsh and ssh.
const Failed = 255

// Shell is a call of remsh: a command of a job on another of its hosts.
type Shell struct {
	Host    string   // without USER@
	User    string   // "" for the caller's name
	Job     string   // "" for the only job of the user there
	Program []string // the remote shell with its arguments, such as ssh
	Options []string // the remote shell's own
	Command []string // is joined by spaces
	NoStdin bool
	Env     []string // the caller's

	ssh     *exec.Cmd
	encoded []byte // the payload
}

// Start starts the remote shell, and returns the file for Wait. A ^C of the terminal is for the
// command over there: the remote shell would die of it before it could be passed on.
func (s *Shell) Start() (*os.File, error) {
	var err error
	if s.encoded, err = json.Marshal(newPayload(s.Job, strings.Join(s.Command, " "), s.Env)); err != nil {
		return nil, err
	}
	if s.ssh, err = s.remoteShell(asWord(s.encoded)); err != nil {
		return nil, fmt.Errorf("remsh %s: %w", s.Host, err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	s.ssh.Stdin, s.ssh.Stdout, s.ssh.Stderr = in, os.Stdout, os.Stderr
	s.ssh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.ssh.Start(); err != nil {
		out.Close()
		return nil, fmt.Errorf("remsh %s: %w", s.Host, err)
	}
	return out, nil
}

// Wait stays between the remote shell and the caller until the shell ends, and returns the status.
// out is from Start. Signals go to the command, and stop is called to stop this process after
// SIGTSTP.
func (s *Shell) Wait(out *os.File, heard <-chan os.Signal, stop func()) (int, error) {
	sender := &sender{w: out}
	sender.begin(s.encoded, s.NoStdin || isNull(os.Stdin), os.Stdin)
	ended := make(chan error, 1)
	go func() { ended <- s.ssh.Wait() }()
	sender.passOn(heard, ended, s.ssh.Process, stop)
	status := s.ssh.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Exited() {
		return Failed, fmt.Errorf("remsh %s: %s ended by %v", s.Host, filepath.Base(s.ssh.Path), status.Signal())
	}
	return status.ExitStatus(), nil
}

// special are characters that mean something to a shell.
const special = "'\"\\`$!*?[]{}()<>|&;#~^"

// remoteShell returns the command that starts the other end. The user's shell there may be any: no
// word of the command means anything to sh, csh or fish.
func (s *Shell) remoteShell(payload string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(self, func(r rune) bool { return r <= ' ' || strings.ContainsRune(special, r) }) {
		return nil, fmt.Errorf("%q: a path that not every shell takes as it is", self)
	}
	args := slices.Clone(s.Program[1:])
	if filepath.Base(s.Program[0]) == "ssh" {
		if !slices.Contains(s.Options, "-X") {
			args = append(args, "-x")
		}
		// There is nobody to answer a question.
		args = append(args, "-T", "-o", "BatchMode=yes")
	}
	args = append(args, s.Options...)
	if s.User != "" {
		args = append(args, "-l", s.User)
	}
	if payload == "" {
		payload = "-"
	}
	return exec.Command(s.Program[0], append(args, s.Host, "exec", self, "remsh", "--remote", payload)...), nil
}

// sender writes frames. Its methods may be called at the same time. Write errors are ignored:
// they mean that ssh has ended, which passOn sees.
type sender struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sender) send(f frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return writeFrame(s.w, f)
}

// begin sends the payload, if that is too long for a word, and then standard input. begin does not
// wait.
func (s *sender) begin(payload []byte, none bool, in io.Reader) {
	s.mu.Lock()
	go func() {
		var err error
		if asWord(payload) == "" {
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

// insist is how soon a second signal has to follow to end the remote shell.
const insist = 10 * time.Second

// passOn sends signals to the other end until ssh has ended. A user who sends a second SIGINT or
// SIGTERM does not wait for a host that may not answer any more. ssh is killed then, and the other
// end finds its caller gone.
func (s *sender) passOn(heard <-chan os.Signal, ended <-chan error, ssh *os.Process, stop func()) {
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
				stop()
			}
		}
	}
}

// isNull reports whether f is /dev/null.
func isNull(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3)
}
