package main_test

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// A task is the process that MoM forks for a job's program. The task leads a session, calls the
// hooks of prologue and launch, and then becomes the program.
type task struct {
	*mom
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	gone   chan struct{}
}

// fork makes the task; all that is of it ends with the test.
func (m *mom) fork() *task {
	m.t.Helper()
	k := &task{mom: m, cmd: exec.Command("/bin/sh", "-c",
		`exec 2>&1; while read -r line; do eval "$line" </dev/null; echo "status $?"; done`), gone: make(chan struct{})}
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var err error
	k.stdin, err = k.cmd.StdinPipe()
	must.NoError(m.t, err)
	stdout, err := k.cmd.StdoutPipe()
	must.NoError(m.t, err)
	k.stdout = bufio.NewReader(stdout)
	must.NoError(m.t, k.cmd.Start())
	go func() { k.cmd.Process.Wait(); close(k.gone) }()
	m.t.Cleanup(func() {
		syscall.Kill(-k.pid(), syscall.SIGKILL)
		k.over()
	})
	return k
}

func (k *task) pid() int { return k.cmd.Process.Pid }

// over waits for the end of the task's program.
func (k *task) over() {
	k.t.Helper()
	select {
	case <-k.gone:
	case <-time.After(time.Minute):
		k.t.Fatalf("the job's program, process %d, has not ended", k.pid())
	}
}

// hook calls the hook as a child of the task.
func (k *task) hook(input string) answer {
	k.t.Helper()
	c := k.prepare(input, k.pid())
	fmt.Fprintf(k.stdin, "setsid %s 2>&1\n", "sh -c '"+c.command+"'")
	said := ""
	for {
		line, err := k.stdout.ReadString('\n')
		if err != nil {
			k.t.Fatalf("hook: %v\n%s\ninput:\n%s", err, said, input)
		}
		if status, found := strings.CutPrefix(line, "status "); found {
			number, err := strconv.Atoi(strings.TrimSpace(status))
			must.NoError(k.t, err)
			return k.read(c, input, said, number)
		}
		said += line
	}
}

// exec has the task become a program of the job's owner, with its standard output where MoM has it.
func (k *task) exec(args ...string) {
	k.t.Helper()
	words := []string{"exec", "setpriv", "--reuid", fmt.Sprint(ownerUID), "--regid", fmt.Sprint(ownerUID),
		"--clear-groups", "env", "-i", "PATH=/usr/bin:/bin"}
	for _, a := range args {
		words = append(words, "'"+strings.ReplaceAll(a, "'", `'\''`)+"'")
	}
	fmt.Fprintln(k.stdin, ". "+k.write(fmt.Sprintf("task.%d", k.pid()), strings.Join(words, " ")+"\n"))
	k.stdin.Close()
}
