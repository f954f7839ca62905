//go:build openpbs

package openpbs_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// fromPBS is what report says of the job to alice on a host without a daemon, such as a login node.
const fromPBS = "HOOKHOST_SOCKET=/nonexistent hookhost report "

// hostsAlone is in the JSON of a host's report, and in none from PBS.
const hostsAlone = `"mem_source"`

// facts are the lines of a text report that one from PBS has to the letter. Times are of the server
// there, and figures of cpu time are rounded.
func facts(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		label, _, _ := strings.Cut(line, " ")
		if slices.Contains([]string{"Job", "Name", "Owner", "Outcome", "Memory"}, label) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// alike fails where a report does not have the figures of each host in another, as PBS rounds them.
func alike(t *testing.T, want, got hostReport) {
	t.Helper()
	if len(want.Hosts) != len(got.Hosts) || len(got.Missing) > 0 {
		t.Errorf("hosts %v, want %v; missing %v", got.Hosts, want.Hosts, got.Missing)
	}
	for name, w := range want.Hosts {
		g := got.Hosts[name]
		if g == nil || g.CPUT == nil || g.Mem == nil {
			t.Errorf("%s: %+v", name, g)
			continue
		}
		if math.Abs(*w.CPUT-*g.CPUT) > 0.051 || *g.Mem < *w.Mem || *g.Mem > *w.Mem+1024 || w.NCPUs != g.NCPUs {
			t.Errorf("%s: %v s, %d bytes, %d cpus; want %v s, %d bytes, %d cpus", name, *g.CPUT, *g.Mem, g.NCPUs,
				*w.CPUT, *w.Mem, w.NCPUs)
		}
	}
}

// reportOf is what a command prints as JSON.
func reportOf(t *testing.T, user, command string) (r hostReport) {
	t.Helper()
	must.NoError(t, json.Unmarshal([]byte(as(t, user, nodes[0], command)), &r))
	return r
}

func TestReportOnALoginNodeIsThatOfTheHosts(t *testing.T) {
	needNodes(t, 2)
	for name, tt := range map[string]struct{ options, script string }{
		"of a host":         {medium(nodes[0]), spin(1.2, 40) + "\nexit 3"},
		"out of memory":     {small(nodes[0]), tooMuch},
		"without a program": {small(nodes[0]), "true"},
		"of two hosts": {twoHosts, "cat >sister.sh <<'END'\n" + spin(1.2, 90) + "\nEND\n" +
			"/opt/pbs/bin/pbs_tmrsh node2 sh $PWD/sister.sh &\n" + spin(1.2, 40) + "\nwait"},
	} {
		t.Run(name, func(t *testing.T) {
			j := qsub(t, "alice", "-N login "+tt.options, tt.script)
			j.ended()
			want, figures := facts(on(t, nodes[0], "hookhost report "+j.id)), j.report(nodes[0])
			if len(figures.Hosts) > 1 {
				figures = j.joined()
			}
			text := as(t, "alice", nodes[0], fromPBS+j.id)
			must.Equal(t, "report (-daemon +qstat)", want, facts(text))
			alike(t, figures, reportOf(t, "alice", fromPBS+"--json "+j.id))
			if strings.Contains(text, "Over time") || strings.Contains(text, "Missing") {
				t.Errorf("%s", text)
			}
			accounting := "--accounting " + pbsHome + "/server_priv/accounting/* --job " + j.id
			must.Equal(t, "report (-daemon +accounting)", want, facts(on(t, nodes[0], "hookhost report "+accounting)))
			alike(t, figures, reportOf(t, "root", "hookhost report --json "+accounting))
			if _, err := output("alice", nodes[0], "hookhost report "+accounting); err == nil ||
				!strings.Contains(err.Error(), "ermission denied") && !strings.Contains(err.Error(), "no such file") {
				t.Errorf("alice reads the server's accounting: %v", err)
			}
		})
	}
}

func TestReportOnALoginNodeOfAJobThatHasNotEnded(t *testing.T) {
	wait, release := hold(t)
	j := qsub(t, "alice", medium(nodes[0]), spin(2, 40)+"\n"+wait)
	held := qsub(t, "alice", "-h "+small(nodes[0]), "true")
	j.running()
	eventually(t, "a periodic has reported 2 s", func() bool {
		u := reportOf(t, "alice", fromPBS+"--json "+j.id).Hosts[nodes[0]]
		return u != nil && u.CPUT != nil && *u.CPUT >= 2
	})
	if text := as(t, "alice", nodes[0], fromPBS+j.id); !strings.Contains(text, "running") {
		t.Errorf("%s", text)
	}
	if text := as(t, "alice", nodes[0], fromPBS+held.id); !strings.Contains(text, "not started") {
		t.Errorf("%s", text)
	}
	// The daemon here does not know a job that runs nowhere, PBS does. The other it knows better.
	for of, want := range map[string]string{held.id: `"start":null`, j.id: hostsAlone, "--pbs " + j.id: `"end":null`} {
		text := as(t, "alice", nodes[0], "hookhost report --json "+of)
		if !strings.Contains(text, want) || strings.Contains(text, hostsAlone) != (want == hostsAlone) {
			t.Errorf("%s: %s", of, text)
		}
	}
	release()
	j.ended()
}

func TestReportOnALoginNodeSaysWhyThereIsNone(t *testing.T) {
	t.Cleanup(func() { on(t, nodes[0], "qmgr -c 'set server job_history_enable = true'") })
	j := qsub(t, "alice", small(nodes[0]), "true")
	j.ended()
	for _, tt := range []struct{ do, report, want string }{
		{"true", fromPBS + "987654", "PBS does not have it: it keeps finished jobs for job_history_duration"},
		{"true", "export PATH=/usr/bin:/bin; ! command -v qstat && " + fromPBS + j.id, ""}, // that of PBS_EXEC
		{"qmgr -c 'set server job_history_enable = false'", fromPBS + j.id,
			"qmgr -c 'set server job_history_enable = true'"},
	} {
		on(t, nodes[0], tt.do)
		said, err := output("alice", nodes[0], tt.report)
		if tt.want == "" {
			must.NoError(t, err)
			continue
		}
		if err == nil || said != "" || !strings.Contains(err.Error(), tt.want) ||
			strings.Count(strings.TrimSpace(err.Error()), "\n") > 0 {
			t.Errorf("%s: %v, %q", tt.report, err, said)
		}
	}
	wait, release := hold(t)
	live := qsub(t, "alice", small(nodes[0]), wait)
	eventually(t, "the job runs", func() bool {
		text, err := output("alice", nodes[0], fromPBS+live.id)
		return err == nil && strings.Contains(text, "running")
	})
	release()
	live.vanished()
}

// Each run of a job, and each subjob of an array, has a record.
func TestAccountingHasTheRunsOfRequeuedJobsAndOfSubjobs(t *testing.T) {
	again := qsub(t, "alice", "-r y "+small(nodes[0]), "sleep 1000")
	again.running()
	array := qsub(t, "alice", "-J 1-2 "+small(nodes[0]), "exit $PBS_ARRAY_INDEX")
	on(t, nodes[0], "qrerun "+again.id)
	again.becomes("runs again", func(a attributes) bool {
		return a.State == "R" && a.Substate == 42 && a.RunCount == 2
	})
	again.deleted()
	array.finished()
	list := on(t, nodes[0], "hookhost report --accounting "+pbsHome+
		"/server_priv/accounting/* --format csv --columns job,exit_status,hosts")
	count := func(line string) int { return strings.Count(list+"\n", "\n"+line+"\n") }
	number, server, _ := strings.Cut(array.id, "[]")
	for _, line := range []string{again.id + ",-11," + nodes[0], number + "[1]" + server + ",1," + nodes[0],
		number + "[2]" + server + ",2," + nodes[0]} {
		if count(line) != 1 {
			t.Errorf("%d of %q in\n%s", count(line), line, list)
		}
	}
	if strings.Count(list, again.id+",") != 2 || strings.Contains(list, array.id) {
		t.Errorf("%s", list)
	}
	// The summary of an array has all of it, wherever its subjobs ran.
	accounting := "hookhost report --accounting " + pbsHome + "/server_priv/accounting/* --job "
	for user, command := range map[string]string{"alice": fromPBS, "root": accounting} {
		text := as(t, user, nodes[0], command+"'"+number+"[]'")
		for _, line := range []string{"1 failed with status 1: subjob 1\n", "1 failed with status 2: subjob 2\n"} {
			if !strings.Contains(text, line) {
				t.Errorf("%s: %s", command, text)
			}
		}
	}
}
