//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// hasSummary checks that a text ends with the lines about the job, which it has once.
func hasSummary(t *testing.T, j *job, text string) {
	t.Helper()
	_, lines, found := strings.Cut(text, "hookhost: job "+j.id+": ")
	if n := strings.Count(lines, "\n"); !found || strings.Contains(lines, "hookhost: job ") || n < 3 || n > 5 ||
		!strings.HasSuffix(strings.TrimSpace(text), "hookhost report "+j.id) {
		t.Errorf("the standard error of job %s: %q", j.id, text)
	}
}

func TestSummaryIsAtTheEndOfTheJobsStandardError(t *testing.T) {
	needNodes(t, 2)
	settings(t, "[reports]\njob_stderr = \"summary\"", nodes...)
	wanted := map[string]struct{ options, file string }{
		"spooled":        {small(nodes[0]), "sum.e"},
		"joined to out":  {"-j oe " + small(nodes[0]), "sum.o"},
		"joined to err":  {"-j eo " + small(nodes[0]), "sum.e"},
		"kept":           {"-k oe " + small(nodes[0]), "sum.e"},
		"direct write":   {"-koed " + small(nodes[0]), "sum.e"},
		"of two hosts":   {twoHosts, "sum.e"},
		"thrown away":    {"-R oe " + small(nodes[0]), ""},
		"written to nil": {"-koed -e /dev/null " + small(nodes[0]), ""},
	}
	warned := warnings(t, nodes[0])
	jobs := map[string]*job{}
	for name, tt := range wanted {
		jobs[name] = qsub(t, "alice", "-N sum "+tt.options, "echo mine >&2; sleep 1")
	}
	typed, screen := interactive(t, small(nodes[0]), "sleep 1; exit")
	for name, tt := range wanted {
		j := jobs[name]
		j.ended()
		if tt.file == "" {
			continue
		}
		path := tt.file + j.short()
		var text string
		eventually(t, name+": "+path+" is delivered", func() bool {
			var err error
			text, err = output("alice", nodes[0], "cat "+path)
			return err == nil
		})
		if !strings.HasPrefix(text, "mine\n") {
			t.Errorf("%s: %s has %q", name, path, text)
		}
		hasSummary(t, j, text+"\n")
	}
	typed.ended()
	if strings.Contains(screen, "hookhost: job") {
		t.Errorf("the terminal of an interactive job shows %q", screen)
	}
	if text := warned(); text != "" {
		t.Errorf("the daemon warns: %s", text)
	}
}

// A link that the owner puts in the place of the file is not followed.
func TestSummaryFollowsNoLinkOfTheOwner(t *testing.T) {
	settings(t, "[reports]\njob_stderr = \"summary\"", nodes[0])
	as(t, "alice", nodes[0], "echo before >target")
	j := qsub(t, "alice", "-N link -k oe "+small(nodes[0]),
		"cd; mv link.e${PBS_JOBID%%.*} away; ln -s ~/target link.e${PBS_JOBID%%.*}")
	j.ended()
	must.Equal(t, "the target", "before", as(t, "alice", nodes[0], "cat target"))
	must.Equal(t, "lines of mom_logs", "1", on(t, nodes[0],
		"cat "+pbsHome+"/mom_logs/* | grep -c 'hookhost: lines for the standard error of job "+j.id+": open '"))
}
