package plugin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
)

// The child's descriptors beside 0, 1 and 2.
const (
	lifelineFD = 3 // the reading end of a pipe; end of file says that the host is gone
	programFD  = 4 // the program's file
)

// programPath is where a child finds its program.
var programPath = fmt.Sprintf("/proc/self/fd/%d", programFD)

// pipeGrace is how long output is still read after a program's end. Only a process that it left
// behind keeps it open.
const pipeGrace = 200 * time.Millisecond

// killGrace is how long a killed program may take to die. A process in state D may never die. The
// host stops waiting after killGrace.
const killGrace = 3 * time.Second

// process is a hook's program from exec until it was reaped. go-plugin's own Runner takes the
// host's standard input and environment, finds the program by its path a second time, and signals
// one process only. So this one is in its place.
type process struct {
	hook      string
	path      string   // of the program, for its argv[0] and for errors
	file      *os.File // the program, checked
	spawn     *spawner
	stdoutLog *lines // after the handshake
	stderrLog *lines

	socketDir string // go-plugin's, only for this process
	env       []string

	handshake    *io.PipeReader
	handshakeErr error // what is wrong with the first line; set before the line is passed on

	cmd      *exec.Cmd
	lifeline *os.File      // the writing end; nobody ever writes
	stdout   *os.File      // the reading end of its standard output
	stderr   *os.File      // the reading end of its standard error
	exited   chan struct{} // closed when the process was reaped and its output read, or left behind

	mu     sync.Mutex
	doomed bool        // kill was called
	grace  *time.Timer // after a kill
	dead   bool        // its pid will soon belong to somebody else
	left   bool        // killed, and not dead in time: nobody waits for it but run
}

var _ runner.Runner = (*process)(nil)

// Start executes the program through the descriptor that was checked: there is no second look at
// its path.
func (p *process) Start(context.Context) error {
	var pipes []*os.File // reading and writing ends by turns, all close-on-exec: no sibling inherits one
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(pipes)
			return err
		}
		pipes = append(pipes, r, w)
	}
	lifeline, stdout, stderr := pipes[0], pipes[3], pipes[5]
	cmd := p.command(lifeline, stdout, stderr)
	p.lifeline, p.stdout, p.stderr = pipes[1], pipes[2], pipes[4]
	if err := p.exec(cmd); err != nil {
		closeAll(pipes)
		return err
	}
	closeAll([]*os.File{lifeline, stdout, stderr})
	handshake, first := io.Pipe()
	p.handshake = handshake
	go p.run(first)
	return nil
}

// command returns how the process starts.
func (p *process) command(lifeline, stdout, stderr *os.File) *exec.Cmd {
	return &exec.Cmd{
		Path:       programPath,
		Args:       []string{p.path},
		Env:        p.env,
		Dir:        "/",
		Stdout:     stdout,
		Stderr:     stderr,
		ExtraFiles: []*os.File{lifelineFD - 3: lifeline, programFD - 3: p.file},
		SysProcAttr: &syscall.SysProcAttr{
			Setsid:    true,
			Pdeathsig: syscall.SIGKILL, // beside the lifeline: for a program that hangs or does not watch it
		},
	}
}

func (p *process) exec(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doomed {
		return context.Canceled
	}
	err := p.spawn.do(cmd.Start)
	if err == nil {
		p.cmd = cmd
		return nil
	}
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return fmt.Errorf("exec %s: %w", p.path, pathErr.Err) // its own path is below /proc/self
	}
	return err
}

// run reads the program's output and reaps it, however long that takes.
func (p *process) run(first *io.PipeWriter) {
	var pumps sync.WaitGroup
	pumps.Go(func() { p.readOut(p.stdout, first) })
	pumps.Go(func() { io.Copy(p.stderrLog, p.stderr); p.stderrLog.flush() })

	pid := p.cmd.Process.Pid
	// WNOWAIT leaves a zombie that holds the pid, so the signal goes to this session's group and to
	// no other.
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	unix.Kill(-pid, unix.SIGKILL)
	left := p.died()
	p.stopReading(time.Now().Add(pipeGrace))
	pumps.Wait()
	p.cmd.Wait() // its error is the exit status, which ProcessState keeps
	closeAll([]*os.File{p.stdout, p.stderr, p.lifeline})
	if left {
		p.stderrLog.log.Infof("program %d, which was left behind, has ended", pid)
		return
	}
	close(p.exited)
}

// died notes that the program has died, and reports whether it was left behind before.
func (p *process) died() (left bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	if p.grace != nil {
		p.grace.Stop()
	}
	return p.left
}

// stopReading ends the reading of the program's output at that time.
func (p *process) stopReading(at time.Time) {
	p.stdout.SetReadDeadline(at)
	p.stderr.SetReadDeadline(at)
}

// abandon has a killed program that does not die count as gone, and says so once.
func (p *process) abandon() {
	p.mu.Lock()
	over := p.dead || p.left
	p.left = p.left || !over
	p.mu.Unlock()
	if over {
		return
	}
	closeAll([]*os.File{p.stdout, p.stderr, p.lifeline})
	p.stderrLog.log.Errorf("program %d does not die of SIGKILL (it hangs in the kernel): it is left behind",
		p.cmd.Process.Pid)
	close(p.exited)
}

// lingers reports whether the program was left behind. Its status is run's then, and nobody's to
// read.
func (p *process) lingers() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}

// maxHandshake is more than any handshake line has: the certificate in it takes a kilobyte.
const maxHandshake = 8 << 10

// readOut passes the first line on to go-plugin and the rest to the log.
func (p *process) readOut(r io.Reader, first *io.PipeWriter) {
	buffered := bufio.NewReaderSize(r, maxHandshake)
	line, err := buffered.ReadSlice('\n')
	if len(line) > 0 {
		p.handshakeErr = checkHandshake(line)
	}
	if err == nil {
		first.Write(line)
	}
	first.Close()
	io.Copy(p.stdoutLog, buffered)
	p.stdoutLog.flush()
}

// checkHandshake says in plain words what is wrong with a program's first line of output. go-plugin
// refuses it too.
func checkHandshake(line []byte) error {
	text := strings.TrimSpace(string(line))
	fields := strings.Split(text, "|")
	core, err := strconv.Atoi(fields[0])
	if len(fields) < 5 || err != nil || !bytes.HasSuffix(line, []byte("\n")) {
		return fmt.Errorf("it printed %q before the handshake: a hook's standard output belongs to the host until "+
			"Serve runs", hostapi.Clip(text, 80))
	}
	if core != 1 { // go-plugin's own, which has never changed
		return fmt.Errorf("its handshake is of go-plugin protocol %d, this host knows 1", core)
	}
	if fields[1] != strconv.Itoa(hostapi.ProtocolVersion) {
		return fmt.Errorf("it speaks protocol %s, this host speaks %d: build it anew",
			hostapi.Printable(hostapi.Clip(fields[1], 20)), hostapi.ProtocolVersion)
	}
	if fields[4] != "grpc" {
		return fmt.Errorf("it speaks %q, this host speaks grpc", hostapi.Clip(fields[4], 20))
	}
	return nil
}

// Stdout gives go-plugin the handshake, Stderr nothing: the log is read here.
func (p *process) Stdout() io.ReadCloser { return p.handshake }

// Stderr is at its end at once.
func (p *process) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Wait returns when the process was reaped or left behind.
func (p *process) Wait(context.Context) error {
	<-p.exited
	return nil
}

// Kill is kill, for go-plugin.
func (p *process) Kill(context.Context) error {
	p.kill()
	return nil
}

// kill sends SIGKILL to the process and its group; before Start it prevents the start. Any time is
// right for a call. The process counts as gone killGrace later, dead or not.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doomed = true
	if p.cmd == nil || p.dead {
		return
	}
	unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	if p.grace == nil {
		p.grace = time.AfterFunc(killGrace, p.abandon)
	}
}

// Name is the hook's name.
func (p *process) Name() string { return p.hook }

// ID is the pid, "" before Start.
func (p *process) ID() string {
	if p.cmd == nil {
		return ""
	}
	return strconv.Itoa(p.cmd.Process.Pid)
}

// Diagnose has nothing to add to the errors made here.
func (p *process) Diagnose(context.Context) string { return "" }

// PluginToHost refuses an address outside of the process's own directory: a program must not send
// the host elsewhere.
func (p *process) PluginToHost(network, addr string) (string, string, error) {
	if network != "unix" || filepath.Dir(addr) != p.socketDir {
		return "", "", fmt.Errorf("it listens on %s %q, not in its own directory", hostapi.Clip(network, 20),
			hostapi.Clip(addr, 120))
	}
	return network, addr, nil
}

// HostToPlugin changes nothing.
func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// cause tells how the process ended, once it has: its last words if it panicked, else its exit
// status.
func (p *process) cause() string {
	if words := p.stderrLog.lastWords(); words != "" {
		return words
	}
	switch {
	case p.cmd == nil:
		return "not started"
	case p.lingers():
		return "killed, and it does not die"
	}
	return p.cmd.ProcessState.String()
}

// endedItself reports whether the process ended in another way than by SIGKILL, once it has ended.
func (p *process) endedItself() bool {
	if p.cmd == nil || p.lingers() {
		return false
	}
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return !status.Signaled() || status.Signal() != syscall.SIGKILL
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
