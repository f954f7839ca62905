package proctest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// Shell is a shell that starts orphans where it is. The parent of these is the test, which has to
// be the first process of its pid namespace.
type Shell struct {
	PID int
	In  io.Writer
	Out *bufio.Reader
}

// Orphan starts a process with these variables, and with the number want unless that is 0 or
// somebody was faster.
func (s *Shell) Orphan(t testing.TB, want int, variables ...string) int {
	t.Helper()
	if want > 0 { // the shell in between has the number before
		must.NoError(t, os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(want-2)), 0))
	}
	fmt.Fprintf(s.In, "(%s setsid sleep 1000 & echo $!)\n", strings.Join(variables, " "))
	line, err := s.Out.ReadString('\n')
	pid, bad := strconv.Atoi(strings.TrimSpace(line))
	must.NoError(t, errors.Join(err, bad))
	must.Eventually(t, "the shell in between has ended, and the orphan has a session of its own", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		must.NoError(t, err)
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')'):]))
		return fields[2] == strconv.Itoa(os.Getpid()) && fields[4] == strconv.Itoa(pid)
	})
	return pid
}

// Bury kills and reaps an orphan.
func Bury(t testing.TB, pid int) {
	t.Helper()
	must.NoError(t, unix.Kill(pid, unix.SIGKILL))
	_, err := unix.Wait4(pid, nil, 0, nil)
	must.NoError(t, err)
}
