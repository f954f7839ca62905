package openpbs

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/pbs"
)

// HostTotal is what a job used on one of its hosts, as that host's pbs_mom told the mother
// superior's when the job ended. MoM adds the totals up for the server.
type HostTotal struct {
	Host string        // as MoM knows it
	CPUT time.Duration // whole seconds
	Mem  pbs.Size
}

// HostTotals returns what a mother superior's log says of a job's hosts, in the log's order. Lines
// of before since are an earlier run's and do not count. The log is in since's time zone. Other
// lines are passed over.
//
// The last of several about a host is MoM's. A user can have MoM log any line before: a newline in
// stageout is logged as it is.
//
// MoM writes a line for each host right before the job's epilogue, at level PBSEVENT_DEBUG2
// (openpbs src/resmom/catch_child.c, scan_for_exiting). The mother superior's own line is older
// than her hooks' epilogue.
func HostTotals(log []byte, job string, since time.Time) []HostTotal {
	const timeLayout = "01/02/2006 15:04:05"
	about := []byte(";Job;" + job + ";")
	since = since.Truncate(time.Second)
	var totals []HostTotal
	for line := range bytes.Lines(log) {
		if !bytes.Contains(line, about) {
			continue
		}
		fields := strings.SplitN(strings.TrimSpace(string(line)), ";", 6)
		if len(fields) != 6 || fields[3] != "Job" || fields[4] != job {
			continue
		}
		written, _, _ := strings.Cut(fields[0], ".") // a site may have microseconds
		at, err := time.ParseInLocation(timeLayout, written, since.Location())
		if err != nil || at.Before(since) {
			continue
		}
		if total, ok := parseHostTotal(fields[5]); ok {
			totals = append(totals, total)
		}
	}
	return totals
}

// parseHostTotal reads "n2 cput=00:01:02 mem=4096kb".
func parseHostTotal(text string) (total HostTotal, ok bool) {
	words := strings.Split(text, " ")
	if len(words) != 3 || words[0] == "" {
		return HostTotal{}, false
	}
	cput, isCPUT := strings.CutPrefix(words[1], "cput=")
	mem, isMem := strings.CutPrefix(words[2], "mem=")
	kb, isKB := strings.CutSuffix(mem, "kb")
	if !isCPUT || !isMem || !isKB {
		return HostTotal{}, false
	}
	duration, err := pbs.ParseDuration(cput)
	if err != nil {
		return HostTotal{}, false
	}
	n, err := strconv.ParseInt(kb, 10, 64)
	if err != nil || n < 0 || n > 1<<50 {
		return HostTotal{}, false
	}
	return HostTotal{Host: words[0], CPUT: duration, Mem: pbs.Size(n << 10)}, true
}
