package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/ledger"
	"github.com/hookhost/hookhost/internal/must"
)

// finished puts a job of uid into the node's ledger.
func (n *node) finished(id string, uid int, pad int) {
	n.t.Helper()
	owner := "nobody"
	if uid != ownerUID {
		owner = "somebody"
	}
	report := map[string]any{
		"job": id, "name": "x" + strings.Repeat("y", pad), "owner": owner, "end": "2026-03-01T13:00:00Z",
		"hosts":   map[string]any{"n1": map[string]any{}},
		"pbs_job": hostapi.Job{ID: id, Owner: hostapi.Owner{User: owner, UID: uid, GID: uid}},
	}
	must.NoError(n.t, ledger.Open(n.path("state/ledger.jsonl")).Append(n.t.Context(), id, uid, report))
}

// reported counts the reports in the node's ledger, by job. A line that is not whole counts for
// nothing.
func (n *node) reported() map[string]int {
	n.t.Helper()
	files, err := filepath.Glob(n.path("state/ledger.jsonl*"))
	must.NoError(n.t, err)
	reports := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must.NoError(n.t, err)
		for line := range bytes.Lines(text) {
			var entry struct{ Job, Sum string }
			_, summed, _ := bytes.Cut(line, []byte(","))
			sum := crc32.Checksum(bytes.TrimSuffix(summed, []byte("\n")), crc32.MakeTable(crc32.Castagnoli))
			if json.Unmarshal(line, &entry) == nil && entry.Sum == fmt.Sprintf("%08x", sum) {
				reports[entry.Job]++
			}
		}
	}
	return reports
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

// A damaged line of the ledger costs its own report and no other, with and without a daemon. Root
// is told which job's it was and where.
func TestDamagedLedgerShowsWhatIsWhole(t *testing.T) {
	n := openNode(t)
	for i := range 4 {
		n.finished(fmt.Sprintf("%d.x", i), ownerUID, 0)
	}
	file := n.path("state/ledger.jsonl")
	b, err := os.ReadFile(file)
	must.NoError(t, err)
	b = bytes.Replace(b, []byte(`{"id":"2.x"`), []byte(`{"ID":"2.x"`), 1)
	must.NoError(t, os.WriteFile(file, b, 0o600))
	const place = "ledger.jsonl:3 (job 2.x)"
	whole := func(r result) bool {
		return strings.Contains(r.stdout, `"0.x"`) && strings.Contains(r.stdout, `"1.x"`) &&
			strings.Contains(r.stdout, `"3.x"`) &&
			strings.Count(r.stdout, "\n") == 3
	}
	look := func(t *testing.T) {
		n.t = t
		if r := n.hookhost("report", "--format=json"); r.status != 1 || !whole(r) ||
			!strings.Contains(r.stderr, place) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("all reports: %+v, want those that are whole, and %q", r, place)
		}
		if r := n.hookhost("report", "--format=json", "--output="+n.path("out")); r.status != 1 || r.stdout != "" {
			t.Errorf("to a file: %+v", r)
		}
		if out, err := os.ReadFile(n.path("out")); err != nil || !whole(result{stdout: string(out)}) {
			t.Errorf("the file: %s, %v", out, err)
		}
		for _, job := range []string{"1.x", "3.x"} {
			if r := n.hookhost("report", job, "--format=json"); r.status != 0 || decodeReport(t, r.stdout).Job != job ||
				r.stderr != "" {
				t.Errorf("a whole report: %+v", r)
			}
		}
		for _, job := range []string{"2.x", "9.x"} {
			if r := n.hookhost("report", job); r.status != 1 || r.stdout != "" || !strings.Contains(r.stderr, place) {
				t.Errorf("a report that is damaged or may be: %+v, want %q", r, place)
			}
		}
	}
	t.Run("without a daemon", look)
	n.t = t
	n.serve()
	t.Run("with a daemon", look)
	t.Run("for its owner", func(t *testing.T) {
		n.t = t
		if r := n.as(ownerUID, "report", "--format=json"); r.status != 1 || !whole(r) ||
			!strings.Contains(r.stderr, "damaged") || strings.Contains(r.stderr, "2.x") {
			t.Errorf("all reports: %+v", r)
		}
		if r := n.as(ownerUID, "report", "2.x"); r.status != 1 || strings.Contains(r.stderr, "ledger") {
			t.Errorf("the damaged one: %+v", r)
		}
		if r := n.as(strangerUID, "report"); r.status != 1 || r.stdout != "" || !strings.Contains(r.stderr, "damaged") {
			t.Errorf("a stranger's: %+v", r)
		}
	})
	if log, err := os.ReadFile(n.path("log")); err != nil || strings.Count(string(log), place) != 1 {
		t.Errorf("the log has the damage %d times, want once: %v", strings.Count(string(log), place), err)
	}
	n.t = t
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
        what = ("reports", "jobs/%d.nowhere/report" % i, "jobs/%d.nowhere/notices" % i)[i % 3]
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

// readBy is what a process has read so far, in bytes.
func readBy(t *testing.T, pid int) (read int64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	must.NoError(t, err)
	if _, err := fmt.Sscanf(string(b), "rchar: %d", &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// A user who asks for finished jobs, over and over and on many connections, has the ledger read
// once. The same holds for one who hangs up at once. Events go on meanwhile.
func TestQuestionsAboutFinishedJobsHoldUpNobody(t *testing.T) {
	n := openNode(t)
	n.finished("1.x", ownerUID, 1000)
	file := n.path("state/ledger.jsonl")
	line, err := os.ReadFile(file)
	must.NoError(t, err)
	const size = 60 << 20
	must.NoError(t, os.WriteFile(file, bytes.Repeat(line, size/len(line)), 0o600))
	d := n.serve()
	pid := d.cmd.Process.Pid
	before := readBy(t, pid)
	must.NoError(t, n.asking(120, "off").Wait())
	if r := n.as(ownerUID, "report", "2.x"); r.status != 1 { // after them, so what they cost is in
		t.Errorf("a job that is not there: %+v", r)
	}
	if read := readBy(t, pid) - before; read > size*5/4 {
		t.Errorf("120 questions that nobody waited for made the daemon read %d MiB of a ledger of %d", read>>20,
			size>>20)
	}
	time.Sleep(2 * time.Second) // an end looks back over what the ledger got since then, by whole seconds
	before = readBy(t, pid)
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
	// Beside the ledger it reads requests, records and kernel files.
	if read := readBy(t, pid) - before; read > size/2 {
		t.Errorf("questions during %v made the daemon read %d MiB more", took, read>>20)
	}
	t.Logf("three jobs took %v", took)
	if took > time.Minute {
		t.Errorf("three jobs took %v", took)
	}
	if r := n.as(ownerUID, "report", "1.x"); r.status != 0 {
		t.Errorf("the report that is there: status %d", r.status)
	}
}
