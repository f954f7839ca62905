//go:build openpbs

package openpbs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// tracer records on a node, by the kernel's tracepoints, how long each pbs_python lived: from the
// fork in MoM to its exit. The tracefs and the instance in it are the node's and go with stop.
type tracer struct {
	t    testing.TB
	node string
}

const traceDir = "/run/trace/instances/hookhost"

func newTracer(t testing.TB, node string) *tracer {
	t.Helper()
	tr := &tracer{t, node}
	tr.sh(`mkdir -p /run/trace && mount -t tracefs tracefs /run/trace && mkdir ` + traceDir + ` && cd ` + traceDir + `
echo mono >trace_clock; echo 16384 >buffer_size_kb
echo 'filename ~ "*/pbs_python*"' >events/sched/sched_process_exec/filter
echo 1 >options/event-fork; echo ` + machinePid(t, node) + ` >set_event_pid
for e in fork exec exit; do echo 1 >events/sched/sched_process_$e/enable; done`)
	t.Cleanup(func() { output("root", node, "rmdir "+traceDir+"; umount /run/trace") })
	return tr
}

// machinePid is the pid of a node's MoM as the kernel's tracepoints have it: the machine's.
func machinePid(t testing.TB, node string) string {
	t.Helper()
	inNode, err := output("root", node, momPid)
	must.NoError(t, err)
	status, err := filepath.Glob("/proc/[0-9]*/status")
	must.NoError(t, err)
	for _, file := range status {
		b, _ := os.ReadFile(file)
		cgroup, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cgroup"))
		pids := regexp.MustCompile(`(?m)^NSpid:\s+(\d+)\s+(\d+)$`).FindStringSubmatch(string(b))
		if pids != nil && pids[2] == inNode && strings.Contains(string(cgroup), "/"+os.Getenv("LAB")+"-"+node) {
			return pids[1]
		}
	}
	t.Fatalf("MoM of %s, pid %s there: not found", node, inNode)
	return ""
}

func (tr *tracer) sh(line string) string {
	tr.t.Helper()
	out, err := output("root", tr.node, line)
	must.NoError(tr.t, err)
	return out
}

// reset forgets what was recorded.
func (tr *tracer) reset() {
	tr.sh("echo >" + traceDir + "/trace; : >/run/mom_logs.from; wc -l " + momLog + " >/run/mom_logs.from")
}

// momLog is today's log of MoM.
const momLog = pbsHome + "/mom_logs/$(date +%Y%m%d)"

var (
	traceLine = regexp.MustCompile(`(\d+\.\d+): sched_process_(fork|exec|exit): (.*)$`)
	tracePid  = regexp.MustCompile(`(?:^|\s)pid=(\d+)`)
	childPid  = regexp.MustCompile(`child_pid=(\d+)`)
	execLine  = regexp.MustCompile(`execve \S*pbs_python --hook -i \S*/hook_(exec[a-z]+_[a-z]+)_`)
)

// lives returns the lives of all pbs_python since reset, by event. MoM logs each execve in the
// order in which the kernel sees them, and only the log knows the event.
func (tr *tracer) lives() map[string][]time.Duration {
	tr.t.Helper()
	born, exited, execs := map[string]float64{}, map[string]float64{}, []string(nil)
	seen := map[string]bool{}
	for line := range strings.Lines(tr.sh("cat " + traceDir + "/trace")) {
		m := traceLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		at, _ := strconv.ParseFloat(m[1], 64)
		switch pid := tracePid.FindStringSubmatch(m[3]); m[2] {
		case "fork":
			born[childPid.FindStringSubmatch(m[3])[1]] = at
		case "exec":
			// The stand-in becomes the real pbs_python for hooks that are not ours.
			if !seen[pid[1]] {
				execs = append(execs, pid[1])
			}
			seen[pid[1]] = true
		case "exit":
			if seen[pid[1]] {
				exited[pid[1]] = at
			}
		}
	}
	var events []string
	log := tr.sh(`read -r n _ </run/mom_logs.from; tail -n +$((n + 1)) ` + momLog + ` | grep ';execve ' || :`)
	for line := range strings.Lines(log) {
		if m := execLine.FindStringSubmatch(line); m != nil {
			events = append(events, m[1])
		}
	}
	if len(events) != len(execs) {
		tr.t.Fatalf("trace of %s: %d execve of pbs_python in mom_logs, %d in the kernel",
			tr.node, len(events), len(execs))
	}
	lives := map[string][]time.Duration{}
	for i, pid := range execs {
		if exited[pid] == 0 || born[pid] == 0 {
			tr.t.Fatalf("trace of %s: pid %s of %s: %s", tr.node, pid, events[i], fmt.Sprint(born[pid], exited[pid]))
		}
		lives[events[i]] = append(lives[events[i]], time.Duration((exited[pid]-born[pid])*1e9))
	}
	return lives
}
