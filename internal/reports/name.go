package reports

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/report"
)

const (
	suffix    = ".json.gz"
	dayFormat = "2006-01-02"
	endFormat = "20060102T150405.000Z"
	// maxJob is how many bytes of a job's id are in a name. A file name has at most 255 bytes.
	maxJob = 128
)

// Name is the information in the name of a report's file. Names sort by End.
type Name struct {
	End    time.Time // UTC, in milliseconds
	UID    int       // of the owner; -1 if unknown
	States string    // what report.States returns, joined by "-"
	Job    string    // the id, or its first 128 bytes
	Run    string    // see runOf
}

// nameOf returns the name of a finished job's report.
func nameOf(r *report.Report) (Name, error) {
	if err := hostapi.CheckJobID(r.Job); err != nil {
		return Name{}, err
	}
	if r.End == nil {
		return Name{}, fmt.Errorf("job %s has not ended", r.Job)
	}
	n := Name{End: r.End.UTC().Truncate(time.Millisecond), UID: -1, States: strings.Join(r.States(), "-"),
		Job: inName(r.Job), Run: runOf(r)}
	if r.PBSJob != nil {
		n.UID = max(r.PBSJob.Owner.UID, -1)
	}
	return n, nil
}

// runOf returns what distinguishes the runs of a job: the run count and when the run began, in
// milliseconds.
func runOf(r *report.Report) string {
	count, began := 0, int64(0)
	if r.PBSJob != nil {
		count = r.PBSJob.RunCount
	}
	if r.Start != nil {
		began = r.Start.UnixMilli()
	}
	return fmt.Sprintf("%d-%d", count, began)
}

// IsOf reports whether a name and a report, which may be of a live job, belong to the same run of a
// job.
func (n Name) IsOf(r *report.Report) bool { return n.Job == inName(r.Job) && n.Run == runOf(r) }

// runCount returns the run count in Run.
func (n Name) runCount() int {
	text, _, _ := strings.Cut(n.Run, "-")
	count, _ := strconv.Atoi(text)
	return count
}

// inName returns the part of a job's id that is in a name.
func inName(id string) string { return id[:min(len(id), maxJob)] }

// String returns the name of the file.
func (n Name) String() string {
	return fmt.Sprintf("%s.uid%d.%s.%s.%s%s", n.End.Format(endFormat), n.UID, n.States, n.Job, n.Run, suffix)
}

// day returns the directory of the file.
func (n Name) day() string { return n.End.Format(dayFormat) }

// parseName parses a name; ok is false if it is not the name of a report.
func parseName(text string) (n Name, ok bool) {
	rest, ok := strings.CutSuffix(text, suffix)
	if !ok || len(rest) < len(endFormat) {
		return Name{}, false
	}
	end, err := time.Parse(endFormat, rest[:len(endFormat)])
	if err != nil {
		return Name{}, false
	}
	rest, found := strings.CutPrefix(rest[len(endFormat):], ".uid")
	uid, rest, named := strings.Cut(rest, ".")
	n = Name{End: end}
	n.UID, err = strconv.Atoi(uid)
	if !found || !named || err != nil {
		return Name{}, false
	}
	n.States, rest, _ = strings.Cut(rest, ".")
	dot := strings.LastIndexByte(rest, '.')
	if dot < 0 {
		return Name{}, false
	}
	n.Job, n.Run = rest[:dot], rest[dot+1:]
	return n, n.String() == text
}

// ofSameRun returns the names that the report of a run may have. Only the states may differ: if a
// daemon was killed and its job ended again, the states may have changed.
func (n Name) ofSameRun() []Name {
	var names []Name
	for _, states := range report.AllStates() {
		n.States = strings.Join(states, "-")
		names = append(names, n)
	}
	return names
}
