//go:build openpbs

package openpbs_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// benchEvents are the events of the table, in the order of a job's life.
var benchEvents = []string{"execjob_begin", "execjob_prologue", "execjob_launch", "execjob_attach",
	"execjob_epilogue", "execjob_end", "exechost_periodic"}

// firstCommand stands in the table for the time from qsub to the first command of the script.
const firstCommand = "qsub to first command"

// benchScript is a job that says when it began and has one process attached.
const benchScript = `date +%s%N >bench.began
setsid sleep 0.7 & sleep 0.2
[ -z "$ATTACH" ] || /opt/pbs/bin/pbs_attach -j $PBS_JOBID -p $!
sleep 1`

// engine is a way in which MoM's events are answered.
type engine struct{ name, on, off string }

var engines = []engine{
	{"no hook", ":", ":"},
	{"pbs_cgroups", "qmgr -c 'set hook pbs_cgroups enabled = true'", "qmgr -c 'set hook pbs_cgroups enabled = false'"},
	{"hookhost", "qmgr -c 'set hook hookhost enabled = true'", "qmgr -c 'set hook hookhost enabled = false'"},
	{"hookhost --native", "qmgr -c 'set hook hookhost enabled = true'; hookhost openpbs install --native",
		"hookhost openpbs uninstall --native; qmgr -c 'set hook hookhost enabled = false'"},
}

// BenchmarkEvents compares, in one run, no hook, OpenPBS's own hook and hookhost. BenchmarkEvents
// measures how long MoM's hook process lives at each event, and the time from qsub to the script's
// first command. The engines take turns, five jobs each: -benchtime 3x runs 15 jobs of each.
func BenchmarkEvents(b *testing.B) {
	node := nodes[0]
	b.Cleanup(func() {
		output("root", node, "qmgr -c 'set hook hookhost enabled = true'; qmgr -c 'set hook hookhost freq = 120'")
	})
	// MoM keeps a periodic's old freq until it has run once more; a new MoM does not know it.
	for _, hook := range []string{"hookhost", "pbs_cgroups"} {
		must.NoError(b, run(node, "qmgr -c 'set hook "+hook+" enabled = false'; qmgr -c 'set hook "+hook+" freq = 5'"))
	}
	time.Sleep(3 * time.Second) // the server sends hooks about a second after a change
	must.NoError(b, run(node, "kill $("+momPid+"); sleep 2; pbs_mom; sleep 3"))
	tr := newTracer(b, node)
	lives := map[string]map[string][]time.Duration{}
	for b.Loop() {
		for _, e := range engines {
			if lives[e.name] == nil {
				lives[e.name] = map[string][]time.Duration{}
			}
			tr.sh(e.on)
			time.Sleep(3 * time.Second)
			tr.sh(hangUp)
			time.Sleep(2 * time.Second)
			tr.reset()
			for range 5 {
				took := benchJob(b, node, e.name != "no hook")
				lives[e.name][firstCommand] = append(lives[e.name][firstCommand], took)
			}
			time.Sleep(6 * time.Second) // a periodic
			for event, took := range tr.lives() {
				lives[e.name][event] = append(lives[e.name][event], took...)
			}
			tr.sh(e.off)
			time.Sleep(2 * time.Second)
		}
	}
	fmt.Fprint(os.Stderr, table(lives))
}

// benchJob runs one job on the node and returns the time from qsub to its first command.
func benchJob(b *testing.B, node string, attach bool) time.Duration {
	b.Helper()
	line := "date +%s%N; qsub -z -Wblock=true -o /dev/null -e /dev/null "
	if attach {
		line += "-v ATTACH=1 "
	}
	line += "-l select=1:ncpus=1:mem=64mb:host=" + node + " <<'END'\n" + benchScript + "\nEND\ncat bench.began"
	out, err := output("alice", node, line)
	must.NoError(b, err)
	times := strings.Fields(out)
	submitted, err1 := strconv.ParseInt(times[0], 10, 64)
	began, err2 := strconv.ParseInt(times[len(times)-1], 10, 64)
	if err1 != nil || err2 != nil {
		b.Fatalf("job of the benchmark: %s", out)
	}
	return time.Duration(began - submitted)
}

// table is Markdown: medians in milliseconds, and of how many.
func table(lives map[string]map[string][]time.Duration) string {
	var s strings.Builder
	fmt.Fprint(&s, "| median, ms (n) |")
	for _, e := range engines {
		fmt.Fprintf(&s, " %s |", e.name)
	}
	fmt.Fprintf(&s, "\n|---|%s\n", strings.Repeat("---|", len(engines)))
	for _, event := range append(benchEvents, firstCommand) {
		fmt.Fprintf(&s, "| %s |", event)
		for _, e := range engines {
			took := lives[e.name][event]
			if len(took) == 0 {
				fmt.Fprint(&s, " – |")
				continue
			}
			slices.Sort(took)
			fmt.Fprintf(&s, " %.1f (%d) |", took[len(took)/2].Seconds()*1000, len(took))
		}
		fmt.Fprintln(&s)
	}
	return s.String()
}
