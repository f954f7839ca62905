package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// largeLedger writes a ledger of 300 MB to a node, as several months leave it, and returns how many
// jobs it has. Job N is N.srv. A tenth of them is the owner's.
func (n *node) largeLedger() (jobs int) {
	n.t.Helper()
	must.NoError(n.t, os.MkdirAll(n.path("state"), 0o700))
	cases, err := filepath.Glob("../../internal/report/testdata/cases/*.archive.json")
	must.NoError(n.t, err)
	const files, size = 5, 60_000_000
	table := crc32.MakeTable(crc32.Castagnoli)
	at := time.Now().Add(-100 * 24 * time.Hour)
	for file := range files {
		name := n.path("state/ledger.jsonl")
		if older := files - 1 - file; older > 0 {
			name = fmt.Sprintf("%s.%d", name, older)
		}
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
		must.NoError(n.t, err)
		w := bufio.NewWriterSize(f, 1<<20)
		for written := 0; written < size; jobs++ {
			at = at.Add(40 * time.Second)
			report, uid := archived(n.t, cases[jobs%len(cases)]), 1000
			if jobs%10 == 0 {
				uid = ownerUID
			}
			id := fmt.Sprintf("%d.srv", jobs)
			report = strings.NewReplacer("JOB", id, "START", at.Add(-time.Hour).Format(time.RFC3339), "END",
				at.Format(time.RFC3339), "UID", fmt.Sprint(uid)).Replace(report)
			text := fmt.Sprintf(`"job":%q,"key":"1","uid":%d,"time":%q,"report":%s}`, id, uid,
				at.UTC().Format(time.RFC3339Nano), report)
			line := fmt.Sprintf("{\"sum\":\"%08x\",%s\n", crc32.Checksum([]byte(text), table), text)
			_, err := w.WriteString(line)
			must.NoError(n.t, err)
			written += len(line)
		}
		must.NoError(n.t, w.Flush(), f.Close())
	}
	return jobs
}

var archives = map[string]string{}

// archived returns a report as the ledger has it, with JOB, START, END and UID in places.
func archived(t testing.TB, path string) string {
	if archives[path] != "" {
		return archives[path]
	}
	text, err := os.ReadFile(path)
	must.NoError(t, err)
	var report map[string]any
	must.NoError(t, json.Unmarshal(text, &report))
	for _, host := range report["hosts"].(map[string]any) {
		delete(host.(map[string]any), "series") // which the ledger does not have
		devices, _ := host.(map[string]any)["devices"].([]any)
		for _, device := range devices {
			delete(device.(map[string]any), "series")
		}
	}
	job := report["pbs_job"].(map[string]any)
	report["job"], job["id"], report["start"], report["end"] = "JOB", "JOB", "START", "END"
	job["owner"].(map[string]any)["uid"] = json.RawMessage(`"UID"`)
	text, err = json.Marshal(report)
	must.NoError(t, err)
	archives[path] = strings.Replace(string(text), `"UID"`, "UID", 1)
	return archives[path]
}

// cold has the kernel drop what it has of the ledger's files.
func (n *node) cold() {
	n.t.Helper()
	files, err := filepath.Glob(n.path("state/ledger.jsonl*"))
	must.NoError(n.t, err)
	for _, name := range files {
		f, err := os.Open(name)
		must.NoError(n.t, err)
		must.NoError(n.t, unix.Fsync(int(f.Fd())), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
	}
}

// BenchmarkLargeLedger is how long commands take that ask about a ledger of 300 MB. They ask as
// root without a daemon, a daemon that has just started, and one that has its index.
func BenchmarkLargeLedger(b *testing.B) {
	n := openNode(b)
	jobs := n.largeLedger()
	middle, last := fmt.Sprintf("%d.srv", jobs/2), fmt.Sprintf("%d.srv", jobs-1)
	week := []string{"report", "--since=7d", "--format=csv"}
	questions := map[string][]string{
		"one": {"report", middle}, "newest": {"report", "--user=1000"}, "unknown": {"report", "999999999.srv"},
		"user": {"report", "--user=" + fmt.Sprint(ownerUID), "--format=csv"}, "week": week,
		"sorted": {"report", "--sort=mem_bytes"}, "all": {"report", "--format=json"}, "last": {"report", last},
		"verify": {"report", "--verify"},
	}
	ask := func(args []string) time.Duration {
		cmd := n.command(args...)
		begun := time.Now()
		if err := cmd.Run(); err != nil && args[1] != "999999999.srv" {
			b.Fatalf("%v: %v", args, err)
		}
		return time.Since(begun)
	}
	names := []string{"last", "one", "newest", "unknown", "user", "week", "sorted", "all", "verify"}
	// Questions that read all of the ledger take seconds.
	rounds := map[string]int{"last": 9, "one": 9, "newest": 9, "unknown": 9, "user": 1, "week": 1, "sorted": 1,
		"all": 1, "verify": 1}
	report := func(b *testing.B, name string) {
		b.ReportMetric(medianOf(rounds[name], func() time.Duration { return ask(questions[name]) }), name+"-ms")
	}
	b.Run("without-daemon", func(b *testing.B) {
		n.cold()
		b.ReportMetric(float64(ask(questions["one"]).Milliseconds()), "one-cold-ms")
		for _, name := range names {
			report(b, name)
		}
		b.ReportMetric(0, "ns/op")
	})
	d := n.serve()
	b.Run("daemon", func(b *testing.B) {
		n.cold()
		b.ReportMetric(float64(ask(questions["one"]).Milliseconds()), "one-first-ms")
		for _, name := range names[:len(names)-1] {
			report(b, name)
		}
		b.ReportMetric(float64(status(b, d.cmd.Process.Pid, "VmRSS"))/1024, "daemon-rss-MB")
		b.ReportMetric(0, "ns/op")
	})
}

// medianOf returns the median of a few measurements in milliseconds.
func medianOf(count int, measure func() time.Duration) float64 {
	var took []time.Duration
	for range count {
		took = append(took, measure())
	}
	slices.Sort(took)
	return float64(took[count/2].Microseconds()) / 1000
}

// BenchmarkRunWhileOthersAsk is `run -- true` on a node with a ledger of 300 MB, alone and beside
// two users. They ask for one job over and over, or for all their jobs, or keep a cpu busy each.
// The four take turns.
func BenchmarkRunWhileOthersAsk(b *testing.B) {
	n := openNode(b)
	n.largeLedger()
	n.serve()
	if r := n.as(ownerUID, "report", "1.nowhere"); r.status != 1 { // the index is there then
		b.Fatalf("%+v", r)
	}
	run := func() time.Duration {
		begun := time.Now()
		must.NoError(b, n.command("run", "--report=none", "-l", "select=1:ncpus=1:mem=64mb", "--", "true").Run())
		return time.Since(begun)
	}
	while := func(script string) (took []time.Duration) {
		for _, uid := range []uint32{ownerUID, strangerUID} {
			cmd := exec.Command("sh", "-c", script, filepath.Join(built, "hookhost"))
			cmd.Dir, cmd.Env = "/", []string{"HOOKHOST_SOCKET=" + n.path("run/s"), "HOOKHOST_CONFIG=/nonexistent"}
			cmd.SysProcAttr = sessionOf(uid)
			must.NoError(b, cmd.Start())
			defer func() {
				unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
				cmd.Wait()
			}()
		}
		time.Sleep(100 * time.Millisecond)
		for range 5 {
			took = append(took, run())
		}
		return took
	}
	took := map[string][]time.Duration{}
	for b.Loop() {
		for name, script := range map[string]string{"alone": "sleep 1000", "busy": "while :; do :; done",
			"list": `while :; do "$0" report --format csv --state failed; done >/dev/null`,
			"one":  `while :; do "$0" report 100000.srv; done >/dev/null 2>&1`} {
			took[name] = append(took[name], while(script)...)
		}
	}
	for name, times := range took {
		spread(b, name, times)
	}
	b.ReportMetric(0, "ns/op")
}
