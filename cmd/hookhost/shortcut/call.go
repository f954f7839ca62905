package shortcut

import (
	"strconv"
	"syscall"
)

// call is what is to be done: take the process pid in; or this one, and become the command.
type call struct {
	socket string
	job    string // "": the only one of the process's user
	pid    int    // 0: this process
	argv   []string
}

// parse reads the arguments of the plain forms: `hookhost attach` or `pbs_attach`, with -j, -m, -p and --socket as words of their own.
// ok is false for all else, right or wrong.
func parse(args []string, socket string) (c call, ok bool) {
	switch {
	case len(args) > 1 && base(args[0]) == "pbs_attach":
		args = args[1:]
	case len(args) > 2 && base(args[0]) == "hookhost" && args[1] == "attach":
		args = args[2:]
	default:
		return call{}, false
	}
	if c.socket = socket; socket == "" {
		c.socket = Socket
	}
	for len(args) > 0 && len(args[0]) > 0 && args[0][0] == '-' {
		if args[0] == "--" {
			args = args[1:]
			break
		}
		if len(args) == 1 || !c.set(args[0], args[1]) {
			return call{}, false
		}
		args = args[2:]
	}
	c.argv = args
	command := len(args) > 0 && args[0] != ""
	// A path that begins where the caller is means something else after a change of directory; package main knows that.
	return c, command == (c.pid == 0) && (command || len(args) == 0) && c.socket[0] == '/'
}

func (c *call) set(option, value string) (ok bool) {
	switch option {
	case "-j":
		c.job = value
		return isJob(value)
	case "-m":
		_, ok = number(value, 65535)
	case "-p":
		c.pid, ok = number(value, 1<<30)
		ok = ok && c.pid > 1
	case "--socket":
		c.socket = value
		ok = value != ""
	}
	return ok
}

func base(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}

// isJob tells whether text may be a job's id. The daemon knows better; here it has to be one that JSON takes as it is.
func isJob(text string) bool {
	for _, r := range []byte(text) {
		switch {
		case r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z', r == '.', r == '-', r == '_', r == '[', r == ']':
		default:
			return false
		}
	}
	return text != ""
}

// number reads a number from 1 to most, written as nobody would argue about.
func number(text string, most int) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 0 && n <= most && strconv.Itoa(n) == text
}

// maxAnswer is far more than an attach is answered with.
const maxAnswer = 1 << 20

// ask returns what the daemon answers, nil when it does not: it is not there, or went away. To attach once more does no harm.
func (c *call) ask() []byte {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: c.socket}); err != nil {
		return nil
	}
	for request := c.request(); len(request) > 0; {
		n, err := syscall.SendmsgN(fd, request, nil, nil, syscall.MSG_NOSIGNAL)
		if err != nil && err != syscall.EINTR {
			return nil
		}
		request = request[max(n, 0):]
	}
	answer, whole := readAll(fd, maxAnswer, func(b []byte) bool {
		_, _, whole := split(b)
		return whole
	})
	if !whole || len(answer) == 0 {
		return nil
	}
	return answer
}

func (c *call) request() []byte {
	pid := c.pid
	if pid == 0 {
		pid = syscall.Getpid()
	}
	body := `{"pid":` + strconv.Itoa(pid) + `}`
	if c.job != "" {
		body = `{"job":"` + c.job + `",` + body[1:]
	}
	return []byte("POST /v1/attach HTTP/1.1\r\nHost: hookhost\r\nHookhost-Api: 1\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(len(body)) +
		"\r\n\r\n" + body)
}

// become is execvp(3) with the environment env. It returns when that fails.
func (c *call) become(env []string) {
	name := c.argv[0]
	if base(name) != name {
		syscall.Exec(name, c.argv, env)
		return
	}
	path := environment("PATH") // this process's, not env's
	for start, i := 0, 0; i <= len(path); i++ {
		if i < len(path) && path[i] != ':' {
			continue
		}
		dir := path[start:i]
		if start = i + 1; dir == "" {
			dir = "."
		}
		switch syscall.Exec(dir+"/"+name, c.argv, env) {
		case syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES:
		default:
			return
		}
	}
}

// with returns the environment env as package main would change it for the command.
func (o *outcome) with(env []string) []string {
	env = set(env, "MPICH_PROCESS_GROUP", "no")
	for _, v := range o.set {
		env = set(env, v.name, v.value)
	}
	for _, name := range o.unset {
		if at := find(env, name); at >= 0 {
			env = append(env[:at], env[at+1:]...)
		}
	}
	return env
}

// set leaves out what setenv(3) does not take.
func set(env []string, name, value string) []string {
	for _, c := range []byte(name) {
		if c == '=' || c == 0 {
			return env
		}
	}
	for _, c := range []byte(value) {
		if c == 0 {
			return env
		}
	}
	if name == "" {
		return env
	}
	if at := find(env, name); at >= 0 {
		env[at] = name + "=" + value
		return env
	}
	return append(env, name+"="+value)
}

func find(env []string, name string) int {
	for i, e := range env {
		if len(e) > len(name) && e[:len(name)] == name && e[len(name)] == '=' {
			return i
		}
	}
	return -1
}
