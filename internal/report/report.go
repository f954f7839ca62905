// Package report makes the usage report of one job, for people (text) and for programs.
//
// The report is made from the job's record (FromRecord) and written in one of the formats that
// FormatNamed knows. A new format needs one function and its line in the table of format.go.
// FromArchive reads a report's JSON. Join combines the reports of several hosts into one.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/series"
	"github.com/hookhost/hookhost/internal/usage"
)

// Report is a job's usage, by host and in total. WriteJSON writes it as JSON with every field.
// Unknown values are null, empty or (below resources_used and hosts) absent, never 0.
type Report struct {
	Job        string     `json:"job"`
	Name       string     `json:"name"`
	Owner      string     `json:"owner"`
	Start      *time.Time `json:"start"`       // launch of the first program, or begin before that; nil before both
	End        *time.Time `json:"end"`         // nil while the job lives
	ExitStatus *int       `json:"exit_status"` // nil while the leading program runs
	Outcome    Outcome    `json:"outcome"`
	// WalltimeLeft is how long a live job may still run, in seconds. It is nil, and not in the
	// JSON, if the job has no limit or has ended.
	WalltimeLeft *float64 `json:"walltime_left_seconds,omitempty"`

	ResourcesUsed Used                          `json:"resources_used"`
	Hosts         map[string]*hostapi.HostUsage `json:"hosts"`         // by host name
	DiagMessages  map[string]string             `json:"diag_messages"` // by host name
	Notes         []string                      `json:"notes"`         // of hooks and the host, then Advice
	// NoteTimes says when the notes were added, in their order; zero, or too few, if unknown.
	NoteTimes []time.Time `json:"note_times,omitempty"`
	Advice    []Advice    `json:"advice,omitempty"`

	// Missing holds, by host, why its last figures are not in the sums. The JSON omits it if no
	// host is missing. Earlier figures of such a host are in Hosts, and count.
	Missing map[string]string `json:"missing,omitempty"`
	// Imbalance compares the hosts of a job on several; nil, and not in the JSON, for one host.
	Imbalance *Imbalance `json:"imbalance,omitempty"`

	// NotStarted means that the job has ended with a status without running a program. The JSON has
	// it only if it is true.
	NotStarted bool `json:"not_started,omitempty"`
	// Terminated means that the job was ended on request, as by qdel. The JSON has it only if it is
	// true.
	Terminated bool `json:"terminated,omitempty"`

	// PBSJob has the job's request, its hosts, the number of its run, and whether this host was its
	// mother superior. It omits the hooks' state and resources_used. Nil if unknown.
	PBSJob *hostapi.Job `json:"pbs_job,omitempty"`
}

// FromRecord returns the report of a job. end is when the job's last event ended, zero while it
// lives. elapsed is how long it had run by then, or has run by now (jobstate.Record.Elapsed).
// The report shares the record's host entries.
func FromRecord(rec *jobstate.Record, end time.Time, elapsed time.Duration) *Report {
	job := cmp.Or(rec.Job, &hostapi.Job{})
	r := &Report{
		Job:           job.ID,
		Name:          job.Name,
		Owner:         owner(job.Owner),
		Start:         known(cmp.Or(rec.Launched.Wall, rec.Begun)),
		End:           known(end),
		ExitStatus:    cmp.Or(rec.ExitStatus, job.ExitStatus),
		ResourcesUsed: resourcesUsed(rec, job, elapsed),
		Hosts:         maps.Clone(rec.Hosts),
		DiagMessages:  maps.Clone(rec.Diag),
		Notes:         slices.Clone(rec.Notes),
		NoteTimes:     slices.Clone(rec.NoteTimes),
		Missing:       maps.Clone(rec.Missing),
		Terminated:    rec.Terminated,
	}
	if rec.Job != nil {
		job := *rec.Job
		job.State, job.ResourcesUsed = nil, nil
		r.PBSJob = &job
	}
	// On a sister host, a job may have run although no program was launched there.
	r.NotStarted = r.End != nil && r.ExitStatus != nil && rec.Launched.IsZero() && job.MotherSuperior
	r.complete()
	r.conclude()
	return r
}

// complete ensures that no map or list becomes null in JSON and that every host has its entry.
func (r *Report) complete() {
	maps.DeleteFunc(r.Hosts, func(_ string, h *hostapi.HostUsage) bool { return h == nil })
	if r.ResourcesUsed == nil {
		r.ResourcesUsed = Used{}
	}
	if r.Hosts == nil {
		r.Hosts = map[string]*hostapi.HostUsage{}
	}
	if r.DiagMessages == nil {
		r.DiagMessages = map[string]string{}
	}
	if r.Notes == nil {
		r.Notes = []string{}
	}
}

// conclude derives from the facts what they mean: the imbalance of hosts, the outcome and advice.
// Advice of the site stays.
func (r *Report) conclude() {
	r.Imbalance = imbalance(r.Hosts)
	r.Outcome = r.outcome()
	site := slices.DeleteFunc(slices.Clone(r.Advice), func(a Advice) bool { return !a.Site })
	r.Advice = append(r.advice(), site...)
	r.Notes = append(r.Notes, texts(r.Advice)...)
}

func owner(o hostapi.Owner) string {
	if o.User == "" && o.UID >= 0 {
		return strconv.Itoa(o.UID)
	}
	return o.User
}

// Began returns when the first program was launched, or else when the job began. It returns the
// zero time if neither is known.
func (r *Report) Began() time.Time {
	if r.Start == nil {
		return time.Time{}
	}
	return *r.Start
}

// known returns nil for the zero time. A report needs only milliseconds.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.Round(0).Truncate(time.Millisecond)
	return &t
}

// byHost are PBS's resources with an entry for each host.
var byHost = []string{"diag_messages", "host_usage"}

// resourcesUsed returns the job's totals. For a job on one host, MoM's figures are right, because
// qstat shows the same. For a job on several hosts, MoM has only this host's share. The sum of the
// known hosts replaces it. Exceptions are walltime, which only the mother superior counts, and
// resources that no host reports.
func resourcesUsed(rec *jobstate.Record, job *hostapi.Job, elapsed time.Duration) Used {
	told := usage.Sum(map[string]hostapi.Resources{"": rec.ResourcesUsed}) // in PBS's formats, without invalid values
	for _, name := range byHost {
		delete(told, name)
	}

	perHost := map[string]hostapi.Resources{}
	for host, h := range rec.Hosts {
		perHost[host] = usage.Resources(h, walltime(told, elapsed))
	}
	total := usage.Sum(perHost)
	for _, name := range []string{"vmem", "hpmem"} { // pbs_mom logs neither for its sisters: a part is not the total
		if !reportedByAll(perHost, name) {
			delete(total, name)
			delete(told, name)
		}
	}
	if cput, all := cputOf(rec.Hosts); all && len(rec.Hosts) > 1 {
		total["cput"] = pbs.FormatDuration(cput)
	}
	for name, v := range told {
		if _, summed := total[name]; len(rec.Hosts) < 2 || name == "walltime" || !summed {
			total[name] = v
		}
	}
	if n, err := strconv.Atoi(job.ResourceList["ncpus"]); total["ncpus"] == "" && err == nil {
		total["ncpus"] = strconv.Itoa(n)
	}
	return Used(total)
}

// reportedByAll returns false if one of several hosts reports its mem, but not the named resource.
func reportedByAll(perHost map[string]hostapi.Resources, name string) bool {
	for _, used := range perHost {
		_, mem := used["mem"]
		if _, reported := used[name]; mem && !reported && len(perHost) > 1 {
			return false
		}
	}
	return true
}

// cputOf returns the cpu time of all hosts, or false if one does not report it. Whole seconds would
// be too small by half a second per host.
func cputOf(hosts map[string]*hostapi.HostUsage) (sum time.Duration, all bool) {
	for _, h := range hosts {
		if h == nil || h.CPUTSeconds == nil {
			return 0, false
		}
		sum += time.Duration(*h.CPUTSeconds * float64(time.Second))
	}
	return sum, true
}

// walltime returns how long the job's first program ran, without suspensions: as reported by MoM,
// else as counted by the host.
func walltime(told hostapi.Resources, elapsed time.Duration) time.Duration {
	if d, err := pbs.ParseDuration(told["walltime"]); err == nil {
		return d
	}
	return elapsed
}

// FromArchive returns the report in a JSON that internal/reports or WriteJSON wrote. The former has
// the series of all hosts under the key "series".
func FromArchive(b json.RawMessage) (*Report, error) {
	var archive struct {
		Report
		Series series.Job `json:"series"`
	}
	err := json.Unmarshal(b, &archive)
	if err == nil {
		err = archive.Series.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	r := &archive.Report
	if len(archive.Series) > 0 {
		r.Hosts = archive.Series.Join(r.Hosts)
	}
	r.NotStarted = r.NotStarted && r.End != nil && r.ExitStatus != nil
	r.complete()
	r.Outcome = r.outcome()
	return r, nil
}
