//go:build openpbs

package openpbs_test

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// terminal is one of alice's on the first node, in which she has submitted a job with qsub -I.
type terminal struct {
	*job
	keys   io.WriteCloser
	screen screen
	pid    string        // a file with the pid of the program that holds the terminal
	closed chan struct{} // when qsub has ended
}

// screen is what a terminal has shown.
type screen struct {
	sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.Lock()
	defer s.Unlock()
	return s.text.String()
}

// openTerminal submits a job of alice's with a terminal, and waits until MoM has connected it. env
// are assignments that qsub is started with.
func openTerminal(t *testing.T, env, options string) *terminal {
	t.Helper()
	x := &terminal{pid: filepath.Join(shared(t), "pid"), closed: make(chan struct{})}
	cmd := command(t.Context(), "alice", nodes[0], fmt.Sprintf(
		`echo $$ >%s; %s exec script -qefc "/opt/pbs/bin/qsub -I %s" /dev/null`, x.pid, env, options))
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &x.screen, &x.screen, time.Second
	var err error
	x.keys, err = cmd.StdinPipe()
	must.NoError(t, err)
	must.NoError(t, cmd.Start())
	go func() {
		cmd.Wait()
		close(x.closed)
	}()
	t.Cleanup(func() {
		x.keys.Close()
		output("root", nodes[0], "kill -KILL $(cat "+x.pid+") 2>/dev/null")
		if x.job != nil {
			output("root", nodes[0], "qdel -W force "+x.id+" 2>/dev/null")
		}
		<-x.closed
		if t.Failed() {
			t.Logf("the terminal shows %q", x.screen.String())
		}
	})
	x.job = &job{t: t}
	x.shows("qsub: waiting for job ", " to start")
	_, after, _ := strings.Cut(x.screen.String(), "qsub: waiting for job ")
	x.id, _, _ = strings.Cut(after, " to start")
	x.shows("qsub: job " + x.id + " ready")
	return x
}

// types types text, which may have control characters.
func (x *terminal) types(text string) {
	x.t.Helper()
	_, err := io.WriteString(x.keys, text)
	must.NoError(x.t, err)
}

// shows waits until the screen has texts in this order. What is typed is shown as well.
func (x *terminal) shows(texts ...string) {
	x.t.Helper()
	eventually(x.t, "the terminal shows "+strings.Join(texts, "..."), func() bool {
		rest := x.screen.String()
		for _, text := range texts {
			_, after, found := strings.Cut(rest, text)
			if !found {
				return false
			}
			rest = after
		}
		return true
	})
}

// prints types a command, and returns what it prints.
func (x *terminal) prints(command string) string {
	x.t.Helper()
	from := len(x.screen.String())
	x.types("echo be''gin; " + command + "; echo e''nd\n")
	var text string
	eventually(x.t, command+" ends", func() bool {
		_, after, _ := strings.Cut(x.screen.String()[from:], "begin\r\n")
		var found bool
		text, _, found = strings.Cut(after, "end\r\n")
		return found
	})
	return strings.TrimSpace(strings.ReplaceAll(text, "\r", ""))
}

// hangUp takes the terminal away, as the end of a connection does.
func (x *terminal) hangUp() {
	x.t.Helper()
	on(x.t, nodes[0], "kill -KILL $(cat "+x.pid+")")
	<-x.closed
}

// interactive submits a job of alice's with a terminal, and types a line there when the job is
// ready. The line has to end the job. All that the terminal has shown is returned.
func interactive(t *testing.T, options, line string) (*job, string) {
	t.Helper()
	x := openTerminal(t, "", options)
	x.types(line + "\n")
	x.shows("qsub: job " + x.id + " completed")
	<-x.closed
	return x.job, x.screen.String()
}
