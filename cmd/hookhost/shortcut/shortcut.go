// Package shortcut is the plain case of `hookhost attach`, done before the rest of the program is initialised: that takes longer than
// all the rest of an attach, and a launcher starts each rank of a job through one.
//
// The language says in which order packages are initialised: by import path, each as soon as what it imports is. So this one is among
// the first as long as it imports next to nothing (no os, no encoding/json; a test looks). It asks the daemon and becomes the
// command. Whatever is not plain it leaves to package main, which begins anew and words all errors: another option, no daemon, a refusal,
// a command that cannot be run. An answer that has come is kept for it, so that the daemon is not asked twice.
package shortcut

import "syscall"

// Socket is where the daemon is unless somebody says otherwise.
const Socket = "/run/hookhost/hookhost.sock"

// Answer is the daemon's answer, from its status line on, to the attach that this process was started for, which package main is to
// make something of; nil when the daemon has not been asked, or it is not known what it has answered.
var Answer []byte

func init() {
	c, ok := parse(arguments(), environment("HOOKHOST_SOCKET"))
	if !ok {
		return
	}
	answer := c.ask()
	if answer == nil {
		return
	}
	out, ok := outcomeOf(answer)
	if ok && len(c.argv) == 0 {
		syscall.Exit(0)
	}
	if ok {
		c.become(out.with(syscall.Environ()))
	}
	Answer = answer
}

// maxArguments bounds what is read of the command line; a longer one is not plain.
const maxArguments = 1 << 20

// arguments returns the command line of this process (proc_pid_cmdline(5)), nil where there is no /proc: os.Args is of a package that
// is not there yet.
func arguments() []string {
	fd, err := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	text, whole := readAll(fd, maxArguments, func([]byte) bool { return false })
	if !whole {
		return nil
	}
	var args []string
	for start, i := 0, 0; i < len(text); i++ {
		if text[i] == 0 {
			args = append(args, string(text[start:i]))
			start = i + 1
		}
	}
	return args
}

func environment(name string) string {
	value, _ := syscall.Getenv(name)
	return value
}

// readAll reads until complete says so, or to the end; whole is false when it has to stop before.
func readAll(fd, limit int, complete func([]byte) bool) (b []byte, whole bool) {
	b = make([]byte, 0, 4096)
	for {
		n, err := syscall.Read(fd, b[len(b):cap(b)])
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil || len(b) > limit:
			return b, false
		case n == 0:
			return b, true
		}
		b = b[:len(b)+n]
		if complete(b) {
			return b, true
		}
		if len(b) == cap(b) {
			b = append(make([]byte, 0, 2*cap(b)), b...)
		}
	}
}
