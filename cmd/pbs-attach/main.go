// Command pbs-attach takes a process into a job, or runs a command in one, as PBS's pbs_attach.
//
// A launcher starts each rank through an attach, and hookhost needs longer for its own start than
// for the attach. This program does the plain case alone and imports little. All else is left to
// hookhost beside it, which begins anew and words all errors. Such are other options, no daemon, a
// daemon that is too busy, and a command that cannot be run. To attach twice does no harm. A
// refusal is worded here, so that the daemon counts it once.
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

// execHookhost is an execve of hookhost by the name that PBS has for an attach. A return is a
// failure.
func execHookhost(env []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	path := filepath.Join(filepath.Dir(self), "hookhost")
	err = syscall.Exec(path, append([]string{"pbs_attach"}, os.Args[1:]...), env)
	return &os.PathError{Op: "exec", Path: path, Err: err}
}

// call says what is to be done: take the process pid in; or this one, and become the command.
type call struct {
	socket  string
	job     string // "": the only one of the process's user
	pid     int    // 0: this process
	command []string
}

// parse reads the plain forms: -j, -m, -p and --socket as words of their own, then the command
// where there is no -p. plain is false for all else, right or wrong.
func parse(args []string) (c call, plain bool) {
	if c.socket = os.Getenv("HOOKHOST_SOCKET"); c.socket == "" {
		c.socket = "/run/hookhost/hookhost.sock"
	}
	for len(args) > 1 && strings.HasPrefix(args[0], "-") && args[0] != "--" {
		value := args[1]
		switch args[0] {
		case "-j":
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
