package main_test

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// questions asks for a path on eight connections until it is killed.
const questions = `
import socket, sys, threading
def ask():
    while True:
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(sys.argv[1])
            s.sendall(("GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % sys.argv[2]).encode())
            while s.recv(1 << 20): pass
for i in range(8):
    threading.Thread(target=ask).start()
`

// BenchmarkRunBesideAJobOf20000Processes is `run -- true` while the owner of such a job asks about
// it all the time, or keeps two cpus busy.
func BenchmarkRunBesideAJobOf20000Processes(b *testing.B) {
	n := newNode(b, `kill_timeout = "50s"`)
	n.serve()
	n.open()
	job := n.bombed(20000)
	defer n.send("execjob_end", job)
	took := map[string][]time.Duration{}
	for b.Loop() {
		for name, cmd := range map[string]*exec.Cmd{
			"idle":      exec.Command("sleep", "1000"),
			"busy":      exec.Command("sh", "-c", "while :; do :; done & while :; do :; done"),
			"report":    exec.Command("/usr/bin/python3", "-c", questions, n.path("run/s"), "/v1/jobs/77.x/report"),
			"processes": exec.Command("/usr/bin/python3", "-c", questions, n.path("run/s"), "/v1/jobs/77.x/processes"),
		} {
			cmd.Dir, cmd.SysProcAttr = "/", sessionOf(ownerUID)
			must.NoError(b, cmd.Start())
			time.Sleep(time.Second)
			for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
				begun := time.Now()
				run := n.command("run", "--report=none", "-l", "select=1:ncpus=0:mem=64mb", "--", "true")
				must.NoError(b, run.Run())
				took[name] = append(took[name], time.Since(begun))
			}
			unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
			cmd.Wait()
		}
	}
	for name, times := range took {
		spread(b, name, times)
	}
	b.ReportMetric(0, "ns/op")
}
