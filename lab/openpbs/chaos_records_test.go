//go:build openpbs

package openpbs_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// recordsOfOneEnd are the types of a job's records: queued, started and run again any number of
// times, and an end. A job that was deleted while it waited has a D alone. A job that is run again
// while it starts has an R without an S.
var recordsOfOneEnd = regexp.MustCompile(`^Q(S?[^ERS]*R|[^ERS])*(S[^ERS]*E|D)$`)

// startedAgain are two starts of one run.
var startedAgain = regexp.MustCompile(`SS+`)

// recordsByForce are those of a job that the server had to delete or to run again by force.
// OpenPBS leaves out the E of an end that had begun, or writes an R behind it.
var recordsByForce = regexp.MustCompile(`^Q[^E]*(D|ER?)$`)

// checkRecords finds each job's end in accounting, once, with what it used. Each run whose program
// began is once in the ledger of the node that it began on.
func (c *chaos) checkRecords() {
	ledgers := map[string]map[string]int{}
	for _, node := range nodes {
		ledgers[node] = map[string]int{}
		runs := on(c.t, node, `sed -E 's/.*"job":"([^"]*)","key":"([^" ]*).*/\1 \2/' /var/lib/hookhost/ledger.jsonl`)
		for line := range strings.Lines(runs) {
			ledgers[node][strings.TrimSpace(line)]++
		}
		for run, n := range ledgers[node] {
			if n != 1 {
				id, _, _ := strings.Cut(run, " ")
				c.t.Errorf("the ledger of %s has run %s %d times:\n%s%s",
					node, run, n, c.nodeLines(node, id), c.serverLines(id))
			}
		}
	}
	kinds := map[string]int{}
	for _, j := range c.jobs {
		records := on(c.t, nodes[0],
			"cat "+pbsHome+"/server_priv/accounting/* | grep ';"+j.id+";' | cut -d';' -f2 | tr -d '\n'")
		kinds[records]++
		if len(c.restarts) > 0 { // one that ends before it has saved that a job runs records its start again
			records = startedAgain.ReplaceAllString(records, "S")
		}
		if !recordsOfOneEnd.MatchString(records) && !(c.forced[j.id] && recordsByForce.MatchString(records)) {
			c.t.Errorf("job %s has records %s in accounting: %s", j.id, records, c.serverLines(j.id))
		}
		told := func(kind string) []map[string]string { // those of which MoM has told the server
			return slices.DeleteFunc(j.accounting(kind), c.isOfTheServerAlone(j.id))
		}
		ends := told("E")
		for _, end := range slices.Concat(ends, told("R")) {
			host, _, _ := strings.Cut(end["exec_host"], "/")
			if run := j.id + " " + end["run_count"]; ledgers[host][run] != 1 {
				c.t.Errorf("the ledger of %q has run %s %d times: %v", host, run, ledgers[host][run], end)
			}
		}
		for _, end := range ends {
			if !hasUse(end) && !c.lostByTheServer(j.id, end) {
				host, _, _ := strings.Cut(end["exec_host"], "/")
				c.t.Errorf("job %s: accounting has not what it used: %v\n%s%s", j.id, end,
					c.nodeLines(host, j.id), c.serverLines(j.id))
			}
		}
	}
	c.t.Logf("%d jobs, by their records in accounting: %v", len(c.jobs), kinds)
}

func hasUse(end map[string]string) bool {
	used := func(name string) bool { return end["resources_used."+name] != "" }
	return used("cput") && used("mem") && used("walltime")
}

// isOfTheServerAlone tells ends of which MoM has reported nothing. Either the job's program has not
// begun: the abort of a begin makes no report. Or the server has deleted the job by force before
// MoM told of the run. The session is that of the run before then, if there was one.
func (c *chaos) isOfTheServerAlone(id string) func(map[string]string) bool {
	return func(end map[string]string) bool {
		return end["session"] == "0" || c.forced[id] && end["Exit_status"] == "265" && !hasUse(end)
	}
}

// lostByTheServer tells an end that MoM reported before a restart of the server and that the server
// recorded after it. The report was in memory alone (ji_acctrec). The server writes the saved part
// of resources_used, which is not much (openpbs src/server/accounting.c, account_jobend).
func (c *chaos) lostByTheServer(id string, end map[string]string) bool {
	line := on(c.t, nodes[0], "grep -h ';"+id+";Obit received' "+pbsHome+"/server_logs/* | tail -n 1")
	obit, err := time.ParseInLocation("01/02/2006 15:04:05", strings.SplitN(line, ";", 2)[0], time.Local)
	recorded, endErr := strconv.ParseInt(end["end"], 10, 64)
	if err != nil || endErr != nil {
		c.t.Errorf("job %s: when it ended cannot be read: %v, %v", id, err, endErr)
		return false
	}
	return slices.ContainsFunc(c.restarts, func(r [2]time.Time) bool {
		return !obit.After(r[1]) && recorded >= r[0].Unix()
	})
}

// nodeLines is what a node has of a job in its ledger, and what daemon and MoM have logged of it.
func (c *chaos) nodeLines(node, id string) string {
	return on(c.t, node, "grep -hF '"+id+"' /var/lib/hookhost/ledger.jsonl | cut -c-600; grep -hF '"+id+"' "+
		daemonLog+" | tail -n 60; grep -h ';"+id+";' "+pbsHome+"/mom_logs/* | cut -c-300 | tail -n 60")
}

// serverLines is what the server has logged of a job, and its records in accounting.
func (c *chaos) serverLines(id string) string {
	return on(c.t, nodes[0],
		"cat "+pbsHome+"/server_logs/* "+pbsHome+"/server_priv/accounting/* | grep ';"+id+"' | cut -c-300")
}
