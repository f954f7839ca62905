package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// flood is a user who troubles the daemon in one way until standard input ends.
const flood = `
import os, select, socket, sys
path, way = sys.argv[1:]
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(1)
    s.connect(path)
    return s
def post(body, length=None):
    return b"POST /v1/attach HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (length or len(body)) + body
hostile = ["../../../etc", "a\nlevel=error msg=forged", "$(reboot)", "x\x1b[2J", "\u202e1.srv", '","pid":1,"x":"', "9" * 4000]
held, turn = [], 0
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    turn += 1
    try:
        s = connect()
        if way == "half":
            s.sendall(post(b"", 10)[:turn % 60])
        elif way == "ask":
            s.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n")
        elif way == "huge":
            s.sendall(post(b"[" * 1000000, 1 << 40))
        elif way == "rubbish":
            s.sendall(os.urandom(5000))
        elif way == "ids":
            s.sendall(post(('{"job": %s, "pid": %d}' % (__import__("json").dumps(hostile[turn % 7]), os.getpid())).encode()))
            s.recv(4096)
        elif way == "slow":
            held.append(s)
            if len(held) < 200:
                continue
            s = held.pop(0)
            s.sendall(b"GET /v")
        s.close()
    except OSError:
        pass
`

// Each user floods the socket in a way of his own. Root's events are answered all the while. Later
// floods take no more of the daemon than the first did, and it gives back what they took.
func TestFloodOfTheSocketHoldsUpNoEventAndLeavesNothing(t *testing.T) {
	if inGuest() {
		kernfstest.Elsewhere(t, "an emulated cpu is too slow for six floods: this machine's kernel tests have it")
	}
	n := newNode(t)
	d := n.serve()
	n.open()
	open := func() int { return openFiles(t, d.cmd.Process.Pid) }
	n.event("execjob_begin", "1.srv", "") // what an event needs once
	n.event("execjob_end", "1.srv", "")
	before := open()
	var resident []int64
	for round := range 3 {
		end := n.floodAll()
		worst := time.Duration(0)
		for i := range 2 {
			for _, event := range []string{"execjob_begin", "execjob_end"} {
				began := time.Now()
				if r := n.event(event, fmt.Sprintf("%d.srv", 10*round+i+2), ""); r.status != 0 {
					t.Errorf("%s: %+v", event, r)
				}
				worst = max(worst, time.Since(began))
			}
		}
		if worst > 4*late {
			t.Errorf("an event was answered after %v", worst)
		}
		end()
		must.Eventually(t, "the daemon has closed all connections", func() bool { return open() <= before })
		resident = append(resident, int64(status(t, d.cmd.Process.Pid, "VmRSS"))<<10)
		t.Logf("round %d: the slowest event took %v; %d bytes are resident", round, worst, resident[round])
	}
	if grown := resident[2] - resident[0]; grown > 16*mib {
		t.Errorf("the daemon has grown by %d bytes", grown)
	}
	log, err := os.ReadFile(n.path("log"))
	must.NoError(t, err)
	if lines := strings.Count(string(log), "\n"); lines > 500 || strings.Contains(string(log), "\nlevel=error") {
		t.Errorf("%d lines in the log, beginning with %.5000s", lines, log)
	}
}

// floodAll starts each kind of flood as a user of its own.
func (n *node) floodAll() (end func()) {
	n.t.Helper()
	var ends []func()
	for i, way := range []string{"half", "ask", "huge", "rubbish", "ids", "slow"} {
		cmd := exec.Command("/usr/bin/python3", "-c", flood, n.path("run/s"), way)
		cmd.Dir, cmd.SysProcAttr = "/", sessionOf(ownerUID-20-uint32(i))
		in, err := cmd.StdinPipe()
		must.NoError(n.t, err)
		out, err := cmd.StdoutPipe()
		must.NoError(n.t, err, cmd.Start())
		ends = append(ends, func() { in.Close(); must.NoError(n.t, cmd.Wait()) })
		if _, err := out.Read(make([]byte, 6)); err != nil {
			n.t.Fatal(filepath.Base(cmd.Path), way, err)
		}
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}
