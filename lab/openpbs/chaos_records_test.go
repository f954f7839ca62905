//go:build openpbs

package openpbs_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// recordsOfOneEnd are the types of a job's records: queued, started and run again any number of
// times, and an end. A job that was deleted while it waited has a D alone. A job that is run again
// while it starts has an R without an S.
var recordsOfOneEnd = regexp.MustCompile(`^Q(S?[^ERS]*R|[^ERS])*(S[^ERS]*E|D)$`)

// recordsByForce are those of a job that the server had to delete or to run again by force.
// OpenPBS leaves out the E of an end that had begun, or writes an R behind it.
var recordsByForce = regexp.MustCompile(`^Q[^E]*(D|ER?)$`)

// reportedRun is what a node's report has of a run of a job.
type reportedRun struct {
	Job    string
	PBSJob struct {
		RunCount int `json:"run_count"`
	} `json:"pbs_job"`
	Hosts map[string]struct {
		Cput float64 `json:"cput_seconds"`
		Mem  int     `json:"mem_bytes"`
	}
}

// reportedRuns are the runs of which a node has reports, by job and run count.
func (c *chaos) reportedRuns(node string) map[string][]reportedRun {
	runs := map[string][]reportedRun{}
	for line := range strings.Lines(on(c.t, node, "zcat /var/lib/hookhost/reports/*/*.json.gz")) {
		var r reportedRun
		must.NoError(c.t, json.Unmarshal([]byte(line), &r))
		run := fmt.Sprintf("%s %d", r.Job, r.PBSJob.RunCount)
		runs[run] = append(runs[run], r)
	}
	return runs
}

// checkRecords finds each job's end in accounting, once, with what it used. Each run whose program
// began has one report on the node that it began on, and accounting has no less than that.
func (c *chaos) checkRecords() {
	reported := map[string]map[string][]reportedRun{}
	for _, node := range nodes {
		reported[node] = c.reportedRuns(node)
		for run, found := range reported[node] {
			if len(found) != 1 {
				id, _, _ := strings.Cut(run, " ")
				c.t.Errorf("%s has %d reports of run %s:\n%s%s",
					node, len(found), run, c.nodeLines(node, id), c.serverLines(id))
			}
		}
	}
	kinds := map[string]int{}
	for _, j := range c.jobs {
		records := c.recordTypes(j.id)
		kinds[records]++
		if c.forced[j.id] && c.deletedWhileDiscarded(j.id) {
			records = strings.TrimSuffix(records, "R")
		}
		if c.deletedWithoutMoM(j.id) {
			records = strings.ReplaceAll(records, "SD", "D")
		}
		if !recordsOfOneEnd.MatchString(records) && !(c.forced[j.id] && recordsByForce.MatchString(records)) {
			c.t.Errorf("job %s has records %s in accounting: %s", j.id, records, c.serverLines(j.id))
		}
		for _, kind := range []string{"E", "R"} {
			for _, end := range j.accounting(kind) {
				host, _, _ := strings.Cut(end["exec_host"], "/")
				runs := reported[host][j.id+" "+end["run_count"]]
				if c.isOfTheServerAlone(j.id, end, len(runs)) {
					continue
				}
				if len(runs) != 1 {
					c.t.Errorf("job %s: %q has %d reports of a run: %v", j.id, host, len(runs), end)
				} else if kind == "E" && !c.hasUseOf(j.id, end, runs[0]) && !c.lostReport(j.id, c.endOf(end)) {
					c.t.Errorf("job %s: accounting has not what it used, %+v: %v\n%s%s", j.id, runs[0], end,
						c.nodeLines(host, j.id), c.serverLines(j.id))
				}
			}
		}
	}
	c.t.Logf("%d jobs, by their records in accounting: %v", len(c.jobs), kinds)
}

// recordTypes are the types of a job's records in accounting, but for what a restart of the server
// does to them. A start is left out that is recorded again: the server ended before it saved that
// the job runs (openpbs src/server/req_runjob.c, complete_running). A D is an E if the server lost
// MoM's report and a MoM is down (node_manager.c, post_discard_job).
func (c *chaos) recordTypes(id string) string {
	lines := on(c.t, nodes[0], "cat "+pbsHome+"/server_priv/accounting/* | grep ';"+id+";' | cut -d';' -f1,2,4")
	var types string
	var started time.Time // of the run, if its start has a record
	for line := range strings.Lines(lines) {
		fields := strings.SplitN(line, ";", 3)
		at, err := time.ParseInLocation(pbsTime, fields[0], time.Local)
		must.NoError(c.t, err)
		kind := fields[1]
		if kind == "D" && strings.HasPrefix(fields[2], "Job deleted, execution node") && c.lostReport(id, at) {
			kind = "E"
		}
		switch kind {
		case "S":
			if !started.IsZero() && c.restartedBetween(chaosServer, started, at) {
				continue
			}
			started = at
		case "E", "R":
			started = time.Time{}
		}
		types += kind
	}
	return types
}

// pbsTime is the form of times in PBS's logs and in accounting.
const pbsTime = "01/02/2006 15:04:05"

// restartedBetween reports whether a restart of the server, or of a node's MoM, touches the time
// between two records, which have whole seconds.
func (c *chaos) restartedBetween(what string, from, to time.Time) bool {
	return slices.ContainsFunc(c.restarts[what], func(r [2]time.Time) bool {
		return !r[1].Before(from) && r[0].Before(to.Add(time.Second))
	})
}

func hasUse(end map[string]string) bool {
	used := func(name string) bool { return end["resources_used."+name] != "" }
	return used("cput") && used("mem") && used("walltime")
}

// hasUseOf reports whether an end has at least what the node that the run began on has in its
// report. MoM alone counts walltime, and not while she is down. She has what the sisters used in
// memory alone (openpbs src/resmom/catch_child.c, init_abort_jobs). A deletion by force is recorded
// with what MoM told of before.
func (c *chaos) hasUseOf(id string, end map[string]string, run reportedRun) bool {
	host, _, _ := strings.Cut(end["exec_host"], "/")
	began, err := strconv.ParseInt(end["start"], 10, 64)
	must.NoError(c.t, err)
	alone := c.restartedBetween(host, time.Unix(began, 0), c.endOf(end))
	var cput, mem int
	for name, used := range run.Hosts {
		if name == host || !alone {
			cput, mem = cput+int(used.Cput), mem+used.Mem
		}
	}
	var kb, h, m, s int
	fmt.Sscanf(end["resources_used.mem"], "%dkb", &kb)
	fmt.Sscanf(end["resources_used.cput"], "%d:%d:%d", &h, &m, &s)
	return hasUse(end) && (c.deletedByForce(id, end) || h*3600+m*60+s >= cput && kb<<10 >= mem)
}

// isOfTheServerAlone tells an end of which MoM has reported nothing, or zeros. Either the job's
// program has not begun, so that no node has a report: the abort of a begin makes no report. Or
// the server has deleted the job by force before MoM told of the run. The session is that of the
// run before then, if there was one. A begin that a hook rejected has JOB_EXEC_FAILHOOK_RERUN.
func (c *chaos) isOfTheServerAlone(id string, end map[string]string, runs int) bool {
	if hasUse(end) && end["resources_used.mem"] != "0kb" {
		return false
	}
	begun := end["session"] != "0" && end["Exit_status"] != "-16"
	return !begun && runs == 0 || !hasUse(end) && c.deletedByForce(id, end)
}

// deletedByForce tells an end that the server recorded by itself.
func (c *chaos) deletedByForce(id string, end map[string]string) bool {
	return c.forced[id] && end["Exit_status"] == "265"
}

// deletedWhileDiscarded tells a job that was deleted while the server waited for the MoMs to
// discard a run of it, after a rerun by force. MoM no longer knows the job, and that ends it
// (openpbs src/server/req_delete.c, post_delete_mom1). The job is in the server's history when the
// last MoM answers, and gets an R there (node_manager.c, post_discard_job).
func (c *chaos) deletedWhileDiscarded(id string) bool {
	_, after, deleted := strings.Cut(c.serverLines(id), "MOM rejected signal during delete (15001)")
	return deleted && strings.Contains(after, "Job requeued, discard response received")
}

// deletedWithoutMoM tells a job that was deleted while the server started it, and that MoM did not
// know. After ten tries the server deletes it alone, and writes no E (post_delete_mom1). MoM can
// lose a run that begins before it has discarded the one before.
func (c *chaos) deletedWithoutMoM(id string) bool {
	return strings.Count(c.serverLines(id), "MOM rejected signal during delete (15001)") >= 10
}

// lostReport tells an end that MoM reported before a restart of the server and that the server
// recorded after it. The report was in memory alone (ji_acctrec). The server writes the saved part
// of resources_used, which is not much (openpbs src/server/accounting.c, account_jobend).
func (c *chaos) lostReport(id string, recorded time.Time) bool {
	line := on(c.t, nodes[0], "grep -h ';"+id+";Obit received' "+pbsHome+"/server_logs/* | tail -n 1")
	stamp, _, _ := strings.Cut(line, ";")
	obit, err := time.ParseInLocation(pbsTime, stamp, time.Local)
	return err == nil && c.restartedBetween(chaosServer, obit, recorded)
}

// endOf is when a job has ended by its record.
func (c *chaos) endOf(end map[string]string) time.Time {
	seconds, err := strconv.ParseInt(end["end"], 10, 64)
	must.NoError(c.t, err)
	return time.Unix(seconds, 0)
}

// nodeLines are a node's reports of a job, and what daemon and MoM have logged of it.
func (c *chaos) nodeLines(node, id string) string {
	return on(c.t, node, "zcat /var/lib/hookhost/reports/*/*."+id+".* | cut -c-600; grep -hF '"+id+"' "+
		daemonLog+" | tail -n 60; grep -h ';"+id+";' "+pbsHome+"/mom_logs/* | cut -c-300 | tail -n 60")
}

// serverLines is what the server has logged of a job, and its records in accounting.
func (c *chaos) serverLines(id string) string {
	return on(c.t, nodes[0],
		"cat "+pbsHome+"/server_logs/* "+pbsHome+"/server_priv/accounting/* | grep ';"+id+"' | cut -c-300")
}
