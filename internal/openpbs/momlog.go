package openpbs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/pbs"
)

// HostTotal is what a job used on one of its hosts. That host's pbs_mom reported it to the mother
// superior when the job ended. MoM adds up the totals for the server.
type HostTotal struct {
	Host string        // as MoM knows it
	CPUT time.Duration // whole seconds
	Mem  pbs.Size
}

// Totals are the totals that MoM has logged for one run of a job, in the log's order.
//
// The log is the only source. No event and no file of the job has them. qstat would have only the
// sums, and a resource by host would be in each accounting record.
type Totals []HostTotal

// Of returns the last total that MoM logged for a host, with or without its domain.
func (t Totals) Of(host string) (HostTotal, bool) {
	for _, total := range slices.Backward(t) {
		if pbs.SameHost(total.Host, host) {
			return total, true
		}
	}
	return HostTotal{}, false
}

// logTail is how much of the end of pbs_mom's log is read. MoM has just written the lines, a
// hundred bytes for each host.
const logTail = 4 << 20

// ReadTotals reads the log of the pbs_mom with that home, a job's mother superior, right after the
// job's end: mom_logs/YYYYMMDD, a file for each day. Lines from before begun belong to an earlier
// run and are ignored. A missing log has no totals.
func ReadTotals(home, job string, begun time.Time) (Totals, error) {
	if !filepath.IsAbs(home) {
		return nil, fmt.Errorf("read the log of pbs_mom: its home is not known: %q", home)
	}
	now := time.Now()
	var log []byte
	for _, day := range []time.Time{now.Add(-time.Minute), now} { // MoM may have written right before midnight
		if day.Day() == now.Day() && !day.Equal(now) {
			continue
		}
		text, err := tail(filepath.Join(home, "mom_logs", day.Format("20060102")), logTail)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the log of pbs_mom: %w", err)
		}
		log = append(log, text...)
	}
	return parseTotals(log, job, begun.Local()), nil
}

// tail returns the last bytes of a regular file.
func tail(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	return io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-most), most))
}

// parseTotals returns what a mother superior's log says about a job's hosts. It ignores lines from
// before since, and other lines. The log is in since's time zone.
//
// If several lines are about a host, the last one is MoM's. A user can make MoM log any line before
// that: a newline in stageout is logged unchanged.
//
// MoM writes a line for each host right before the job's epilogue, at level PBSEVENT_DEBUG2
// (openpbs src/resmom/catch_child.c, scan_for_exiting). The mother superior's own line predates its
// hooks' epilogue.
func parseTotals(log []byte, job string, since time.Time) Totals {
	const timeLayout = "01/02/2006 15:04:05"
	about := []byte(";Job;" + job + ";")
	since = since.Truncate(time.Second)
	var totals Totals
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
