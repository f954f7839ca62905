package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/reports"
)

// archive has the reports of the node's finished jobs.
func (n *node) archive() *reports.Store {
	n.t.Helper()
	bounds := func() reports.Bounds { return reports.Bounds{Age: 100 * 366 * 24 * time.Hour, Size: 1 << 40} }
	s := reports.Open(n.path("state/reports"), n.path("run/reports"), bounds, func(err error) { n.t.Error(err) })
	n.t.Cleanup(s.Close)
	return s
}

// archived puts a report among those of the node's finished jobs.
func (n *node) archived(text any) {
	n.t.Helper()
	b, err := json.Marshal(text)
	must.NoError(n.t, err)
	r, err := report.FromArchive(b)
	must.NoError(n.t, err)
	must.NoError(n.t, n.archive().Write(r, nil))
}

// finished is a job of uid that has ended.
func (n *node) finished(id string, uid int) {
	n.t.Helper()
	owner := "nobody"
	if uid != ownerUID {
		owner = "somebody"
	}
	n.archived(map[string]any{
		"job": id, "name": "x", "owner": owner, "end": time.Now().Add(-time.Hour),
		"hosts":   map[string]any{"n1": map[string]any{}},
		"pbs_job": hostapi.Job{ID: id, Owner: hostapi.Owner{User: owner, UID: uid, GID: uid}},
	})
}

// reportFiles are the files of finished jobs, oldest first; of one job where an id is given.
func (n *node) reportFiles(id string) []string {
	n.t.Helper()
	pattern := "state/reports/*/*.json.gz"
	if id != "" {
		pattern = "state/reports/*/*." + id + ".*.json.gz"
	}
	files, err := filepath.Glob(n.path(pattern))
	must.NoError(n.t, err)
	return files
}

// reported counts the node's reports of finished jobs. A file that is not whole counts for nothing.
func (n *node) reported() map[string]int {
	n.t.Helper()
	count := map[string]int{}
	for _, path := range n.reportFiles("") {
		out, err := exec.Command("zcat", path).Output()
		var r struct{ Job string }
		if err == nil && json.Unmarshal(out, &r) == nil {
			count[r.Job]++
		}
	}
	return count
}

// openFiles returns how many files a process has open.
func openFiles(t testing.TB, pid int) int {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	must.NoError(t, err)
	return len(files)
}

// openNode is a node whose programs other users may run.
func openNode(t testing.TB) *node {
	t.Helper()
	n := newNode(t)
	n.open()
	return n
}

// asks sends a daemon questions on each of N connections, at the same time, until it is killed or
// has sent them all. With "on" it asks over and over, with "off" it awaits no answer.
const asks = `
import socket, sys, threading
path, n, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def ask(i):
    while True:
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        what = ("reports", "jobs/%d.nowhere/report" % i)[i % 2]
        s.sendall(("GET /v1/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % what).encode())
        while mode == "on" and s.recv(1 << 16): pass
        s.close()
        if mode == "off": return
print("asking", flush=True)
threads = [threading.Thread(target=ask, args=(i,), daemon=True) for i in range(n)]
for t in threads: t.start()
for t in threads: t.join()
`

func (n *node) asking(count int, mode string) *exec.Cmd {
	n.t.Helper()
	cmd := exec.Command("/usr/bin/python3", "-c", asks, n.path("run/s"), fmt.Sprint(count), mode)
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: strangerUID, Gid: strangerUID},
		Pdeathsig: syscall.SIGKILL}
	must.NoError(n.t, cmd.Start())
	return cmd
}

// A user who asks for finished jobs, over and over and on many connections, holds up no event. The
// same holds for one who hangs up at once.
func TestQuestionsAboutFinishedJobsHoldUpNobody(t *testing.T) {
	n := openNode(t)
	n.finished("1.x", ownerUID)
	file := n.reportFiles("1.x")[0]
	for i := range 10_000 {
		must.NoError(t, os.WriteFile(strings.Replace(file, ".1.x.", fmt.Sprintf(".%d.y.", i), 1), nil, 0o600))
	}
	n.serve()
	must.NoError(t, n.asking(120, "off").Wait())
	if r := n.as(ownerUID, "report", "2.x"); r.status != 1 {
		t.Errorf("a job that is not there: %+v", r)
	}
	asking := n.asking(40, "on")
	begun := time.Now()
	for range 3 {
		if r := n.hookhost("run", "--report=none", "--", "true"); r.status != 0 {
			t.Errorf("a job meanwhile: %+v", r)
		}
	}
	took := time.Since(begun)
	asking.Process.Kill()
	asking.Wait()
	t.Logf("three jobs took %v", took)
	if took > 12*late {
		t.Errorf("three jobs took %v", took)
	}
	if r := n.as(ownerUID, "report", "1.x"); r.status != 0 {
		t.Errorf("the report that is there: status %d", r.status)
	}
}
