package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hookhost/hookhost/integrations/openpbs/table"
)

// maxInput is the daemon's limit.
const maxInput = 8 << 20

// call is MoM's request.
type call struct {
	in, out string
	script  string
}

// parse reads MoM's arguments after --hook. ok is false for arguments that MoM does not use for a
// node's hook (run_hook).
func parse(args []string) (c call, ok bool) {
	for len(args) > 1 && len(args[0]) == 2 && args[0][0] == '-' {
		switch args[0][1] {
		case 'i':
			c.in = args[1]
		case 'o':
			c.out = args[1]
		case 'L', 'l', 'e', 'r': // the log's directory, file and mask, the resource definitions: for the real one
		default:
			return call{}, false
		}
		args = args[2:]
	}
	if len(args) != 1 || args[0] == "" || args[0][0] == '-' || c.in == "" || c.out == "" {
		return call{}, false
	}
	c.script = args[0]
	return c, true
}

// verdict says what is left to do.
type verdict struct {
	done     bool   // the output file is written
	variable string // a variable for the shim, or ""
}

// answer answers an event of hookhost's hook. In any doubt it returns a zero verdict.
func answer(args []string, start time.Time) verdict {
	c, ok := parse(args[2:])
	if !ok {
		return verdict{}
	}
	if !strings.HasSuffix(c.script, ".PY") || !isOurs(c.script) {
		return verdict{}
	}
	// The shim has taken vnodes offline while the daemon did not answer, and left this mark. Only
	// the shim can bring them back online.
	if there(c.script[:len(c.script)-len(".PY")] + ".offline") {
		return verdict{}
	}
	config, _ := syscall.Getenv("PBS_HOOK_CONFIG_FILE") // as MoM sets it, and the shim reads it
	socket := socketIn(config)
	if socket == "" {
		return verdict{}
	}
	in, ok := readInput(c.in)
	if !ok {
		return verdict{}
	}
	alarm := alarmIn(in)
	if alarm <= 0 {
		return verdict{}
	}
	margin := max(500*time.Millisecond, alarm/20)
	reply, err := ask(socket, in, start.Add(alarm-margin))
	if err != nil {
		return verdict{} // the shim waits for a daemon that restarts, and decides about the event
	}
	if reply.output {
		return verdict{done: writeOutput(c.out, reply.body)}
	}
	fd, err := memory(reply.body)
	if err != nil {
		return verdict{}
	}
	return verdict{variable: replyVariable + strconv.Itoa(fd)}
}

// isOurs reports whether a script is hookhost's, from its first bytes. The hook's name does not
// count, because the administrator may change it on the server's host.
func isOurs(script string) bool {
	f, err := os.Open(script)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(mark))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == mark
}

// socketIn returns the daemon's socket in the hook's configuration, the default if it has none, or
// "" if it cannot be read.
func socketIn(path string) string {
	if path == "" || !there(path) {
		return table.Socket
	}
	text, ok := read(path, 1<<20)
	if !ok {
		return ""
	}
	if socket := table.Read(text)["socket"]; strings.HasPrefix(socket, "/") {
		return socket
	}
	return table.Socket
}

// there reports whether a file exists or may exist.
func there(path string) bool {
	var stat syscall.Stat_t
	return syscall.Stat(path, &stat) != syscall.ENOENT
}

// readInput reads MoM's input file.
func readInput(path string) ([]byte, bool) {
	b, ok := read(path, maxInput)
	return b, ok && len(b) > 0
}

// read returns a file of at most most bytes.
func read(path string, most int) ([]byte, bool) {
	b, err := os.ReadFile(path)
	return b, err == nil && len(b) <= most
}

// alarmIn returns the hook's alarm, or 0 if there is none. The last of several lines is MoM's: text
// that users can influence comes before it (run_hook).
func alarmIn(in []byte) time.Duration {
	const key = "\npbs.event().alarm="
	text := string(in)
	at := strings.LastIndex(text, key)
	if at < 0 {
		return 0
	}
	line, _, _ := strings.Cut(text[at+len(key):], "\n")
	n, err := strconv.Atoi(line)
	if err != nil || n < 1 || n > 1<<20 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// writeOutput writes MoM's output file as pbs_python does. If the file cannot be written
// completely, it is removed.
func writeOutput(path string, text []byte) bool {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_TRUNC|syscall.O_CLOEXEC, 0o666)
	if err != nil {
		return false
	}
	ok := writeAll(fd, text)
	if syscall.Close(fd) != nil || !ok {
		syscall.Unlink(path)
		return false
	}
	return true
}

func writeAll(fd int, b []byte) bool {
	for len(b) > 0 {
		n, err := syscall.Write(fd, b)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return false
		}
		b = b[n:]
	}
	return true
}
