//go:build openpbs

package openpbs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// spend is a program that uses cpu time until it is killed. No process of it reaches RLIMIT_CPU, by
// which MoM bounds each.
var spend = "while :; do " + spin(0.3, 1) + "; done"

// momConfig adds lines to the configuration of a node's MoM until the end of the test, and has MoM
// measure its jobs every few seconds.
func momConfig(t *testing.T, node, lines string) {
	t.Helper()
	const config = pbsHome + "/mom_priv/config"
	before := on(t, node, "cat "+config)
	t.Cleanup(func() {
		write(t, node, config, before)
		must.NoError(t, causes(node, hangUp, "event=exechost_startup"))
	})
	write(t, node, config, before+"\n$min_check_poll 3\n$max_check_poll 5\n"+lines)
	on(t, node, hangUp)
}

// killed waits until MoM has ended the job for a limit.
func (j *job) killed() (a attributes, why string) {
	j.t.Helper()
	a = j.becomes("is ended", func(a attributes) bool { return a.State == "F" })
	if a.ExitStatus == nil {
		j.t.Fatalf("job %s has no exit status: %s", j.id, a.Comment)
	}
	const killed = "=>> PBS: job killed: "
	lines := strings.Split(j.stderr(), "\n")
	var found []string
	for _, line := range lines {
		if text, is := strings.CutPrefix(line, killed); is {
			found = append(found, text)
		}
	}
	return a, strings.Join(found, "\n")
}

// matches is an assertion about what MoM says.
func matches(t *testing.T, what, text, pattern string) {
	t.Helper()
	if !regexp.MustCompile("^" + pattern + "$").MatchString(text) {
		t.Errorf("%s: %q, want %s", what, text, pattern)
	}
}

// MoM's own end of a job has an exit status and words by which the server and its users know it.
func TestMoMEndsAJobBeyondItsCPUTAsWithoutHooks(t *testing.T) {
	for _, node := range nodes {
		momConfig(t, node, "")
	}
	t.Run("on one host", func(t *testing.T) {
		j := qsub(t, "alice", small(nodes[0])+" -l cput=3", spend)
		a, why := j.killed()
		must.Equal(t, "exit status", -28, *a.ExitStatus)
		matches(t, "comment", a.Comment, ".* and exceeded resource cput")
		matches(t, "standard error", why, `cput \d+ exceeded limit 3`)
		j.gone()
	})
	t.Run("on two hosts together", func(t *testing.T) {
		needNodes(t, 2)
		j := qsub(t, "alice", twoHosts+" -l cput=3", "cat >sister.sh <<'END'\n"+spend+"\nEND\n"+
			"/opt/pbs/bin/pbs_tmrsh node2 sh $PWD/sister.sh\nsleep 300") // MoM may end the sister's task first
		a, why := j.killed()
		must.Equal(t, "exit status", 256+15, *a.ExitStatus) // the script's, by MoM's SIGTERM
		matches(t, "standard error", why, `cput job total \d+ secs exceeded limit 3 secs`)
		j.gone()
	})
}

// MoM's own limits hold a job to its cpus and its memory where the kernel does not. MoM has the
// figures from hookhost, which exechost_periodic brings.
func TestEnforceOfMoMActsWhereTheKernelDoesNot(t *testing.T) {
	settings(t, "[cpuset]\nenabled = false\n[memory]\nenabled = false\n[memsw]\nenabled = false", nodes[0])
	for name, tt := range map[string]struct {
		config, script string
		status         int
		why            string
	}{
		"cpuburst": {"$enforce cpuburst\n$enforce delta_cpufactor 0.01\n$enforce delta_percent_over 0", spend, -24,
			`ncpus \S+ exceeded limit 1 \(burst\)`},
		"cpuaverage": {"$enforce cpuaverage\n$enforce average_cpufactor 0.01\n$enforce average_percent_over 0\n" +
			"$enforce average_trialperiod 3", spend, -25, `ncpus \S+ exceeded limit 1 \(sum\)`},
		"mem": {"$enforce mem", `python3 -c 'import time; x = b"x" * (200 << 20); time.sleep(300)'`, -27,
			`mem \d+kb exceeded limit 65536kb`},
	} {
		t.Run(name, func(t *testing.T) {
			momConfig(t, nodes[0], tt.config)
			j := qsub(t, "alice", small(nodes[0]), tt.script)
			a, why := j.killed()
			must.Equal(t, "exit status", tt.status, *a.ExitStatus)
			matches(t, "standard error", why, tt.why)
			t.Logf("after %v", a.ResourcesUsed["walltime"])
			j.gone()
		})
	}
}
