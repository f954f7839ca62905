// Command pbs-attach adds a process to a job, or runs a command in one, like PBS's pbs_attach.
//
// A launcher starts each rank through an attach, and hookhost needs longer to start than to attach.
// This program handles only the plain case and imports little. Everything else is left to hookhost
// beside it, which starts over and reports all errors. That includes other options, no daemon, a
// daemon that is too busy, and a command that cannot be run. Attaching twice does no harm. Refusals
// are reported here, so that the daemon counts them once.
//
// The two settings keep Go from reading the cgroup's cpu quota, as in cmd/pbs-python.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	env := os.Environ()
	if c, plain := parse(os.Args[1:]); plain {
		switch a, err := c.ask(); {
		case err != nil || a.forHookhost():
		case a.refusal() != "":
			os.Stderr.WriteString("pbs_attach: tm_attach: " + a.refusal() + "\n")
			os.Exit(1)
		case c.pid != 0:
			return
		default:
			c.exec(a)
		}
	}
	err := execHookhost(env)
	os.Stderr.WriteString("pbs_attach: " + err.Error() + "\n")
	os.Exit(127)
}

// execHookhost executes hookhost with execve, under PBS's name for an attach. It returns only if
// that fails.
func execHookhost(env []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	path := filepath.Join(filepath.Dir(self), "hookhost")
	err = syscall.Exec(path, append([]string{"pbs_attach"}, os.Args[1:]...), env)
	return &os.PathError{Op: "exec", Path: path, Err: err}
}

// call is the request: attach the process pid, or attach this process and execute the command.
type call struct {
	socket  string
	job     string // "": the only job of the process's user
	pid     int    // 0: this process
	command []string
}

// parse reads the plain forms: -j, -m, -p and --socket as separate words, then the command if there
// is no -p. plain is false for everything else, valid or not.
func parse(args []string) (c call, plain bool) {
	if c.socket = os.Getenv("HOOKHOST_SOCKET"); c.socket == "" {
		c.socket = "/run/hookhost/hookhost.sock"
	}
	for len(args) > 1 && strings.HasPrefix(args[0], "-") && args[0] != "--" {
		value := args[1]
		switch args[0] {
		case "-j":
			if !strings.Contains(value, ".") { // hookhost finds the job with that number
				return call{}, false
			}
			c.job = value
		case "-p":
			var err error
			if c.pid, err = strconv.Atoi(value); err != nil || c.pid <= 1 {
				return call{}, false
			}
		case "-m":
			if port, err := strconv.Atoi(value); err != nil || port <= 0 || port > 65535 {
				return call{}, false
			}
		case "--socket":
			c.socket = value
		default:
			return call{}, false
		}
		args = args[2:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	c.command = args
	if c.pid != 0 {
		return c, len(args) == 0
	}
	return c, len(args) > 0 && args[0] != "" && args[0][0] != '-'
}
