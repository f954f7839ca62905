package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/usage"
)

// Part is the report of a job as one of its hosts wrote it.
type Part struct {
	*Report
	From string // the file it was read from, for errors
}

// maxParts bounds what ReadParts reads, in bytes. The reports of 1,000 hosts take a tenth of it.
const maxParts = 256 << 20

// ReadParts reads reports in the form of WriteJSON, one after the other. It fails if one is
// damaged, if there is none, or if they exceed maxParts: a small gzip can unpack to any size.
func ReadParts(in io.Reader, from string) ([]Part, error) {
	var parts []Part
	limited := &io.LimitedReader{R: in, N: maxParts + 1}
	for dec := json.NewDecoder(limited); ; {
		var text json.RawMessage
		var r *Report
		err := dec.Decode(&text)
		if err != nil && limited.N == 0 {
			return nil, fmt.Errorf("read %s: more than %d MiB, which no job's reports are", from, maxParts>>20)
		}
		if errors.Is(err, io.EOF) && len(parts) > 0 {
			return parts, nil
		}
		if err == nil {
			r, err = FromArchive(text)
		}
		if err == nil && (r.Job == "" || r.PBSJob == nil) {
			err = errors.New("it lacks job or pbs_job")
		}
		if err != nil {
			return nil, notReport(from, err)
		}
		parts = append(parts, Part{r, from})
	}
}

// notReport is the error of a file that is not a report, without names of this program's types.
func notReport(from string, err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.Is(err, unix.EISDIR):
		return fmt.Errorf("%s: a directory, not a report", from)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: empty, not a report", from)
	case errors.As(err, &wrong) && strings.TrimPrefix(wrong.Field, "Report") == "":
		err = fmt.Errorf("it is a JSON %s", wrong.Value)
	case errors.As(err, &wrong):
		err = fmt.Errorf("%s is a JSON %s", strings.TrimPrefix(wrong.Field, "Report."), wrong.Value)
	}
	return fmt.Errorf("%s: not a report: %w; hookhost report --json JOB on that host writes one", from, err)
}

// Join returns the report of a job on several hosts. A host's part is the one that it wrote itself.
// If it wrote none, its part is what the mother superior knows about it. Facts about the whole job,
// such as exit status and walltime, come from the mother superior. Join fails on reports of two
// jobs or of two runs of a job, and on two different reports of one host.
func Join(parts []Part) (*Report, error) {
	parts, err := inOrder(parts)
	if err != nil {
		return nil, err
	}
	r := *parts[0].Report
	r.Hosts, r.DiagMessages = maps.Clone(r.Hosts), maps.Clone(r.DiagMessages)
	r.Missing = maps.Collect(maps.All(r.Missing))
	r.Notes, r.NoteTimes = []string{}, nil
	told, by := map[string]hostapi.Resources{}, map[string]Part{}
	for i, p := range parts {
		if err := sameRun(parts[0], p); err != nil {
			return nil, err
		}
		told[fmt.Sprint(i)] = hostapi.Resources(p.ResourcesUsed)
		for _, host := range p.measured() {
			name := r.nameOf(host)
			if other, twice := by[name]; twice {
				return nil, fmt.Errorf("join %s and %s: host %s is in both, with different figures: leave one out",
					other.From, p.From, name)
			}
			delete(r.Hosts, name)
			delete(r.Missing, name)
			by[host], r.Hosts[host] = p, p.Hosts[host]
			if r.End != nil && p.End == nil {
				r.Missing[host] = "its report was written while the job ran"
			}
			if diag := p.DiagMessages[host]; diag != "" {
				r.DiagMessages[host] = diag
			}
		}
		r.addNotes(p)
	}
	r.withoutHead()
	all := usage.Sum(told)
	all["walltime"] = r.ResourcesUsed["walltime"]
	r.ResourcesUsed = resourcesUsed(&jobstate.Record{Hosts: r.Hosts, ResourcesUsed: all}, r.PBSJob, 0)
	r.conclude()
	return &r, nil
}

// inOrder returns each part once, the mother superior's first. Parts are compared as JSON, because
// an unknown value is NaN, which does not equal itself.
func inOrder(parts []Part) (first []Part, err error) {
	var others []Part
	seen := map[string]bool{}
	for _, p := range parts {
		text, err := json.Marshal(p.Report)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", p.From, err)
		}
		switch {
		case seen[string(text)]:
		case p.PBSJob.MotherSuperior:
			first = append(first, p)
		default:
			others = append(others, p)
		}
		seen[string(text)] = true
	}
	return append(first, others...), nil
}

// sameRun fails unless two parts are of the same job and run. PBS counts runs in run_version. A PBS
// without it has only run_count.
func sameRun(a, b Part) error {
	if a.Job != b.Job {
		return fmt.Errorf("join %s and %s: job %s and job %s: name reports of one job", a.From, b.From, a.Job, b.Job)
	}
	name, x, y := "run_version", a.PBSJob.RunVersion, b.PBSJob.RunVersion
	if x == 0 || y == 0 {
		name, x, y = "run_count", a.PBSJob.RunCount, b.PBSJob.RunCount
	}
	if x != y && x > 0 && y > 0 {
		return fmt.Errorf("join %s and %s: %s %d and %d of job %s: name reports of one run", a.From, b.From, name, x, y,
			a.Job)
	}
	return nil
}

// measured returns the hosts whose figures were measured where the part was written. The mother
// superior has its own figures, and what MoM's log says about the others. A sister has only its
// own.
func (p Part) measured() []string {
	names := p.hostNames()
	if !p.PBSJob.MotherSuperior {
		return names
	}
	hosts, err := pbs.Hosts(p.PBSJob.ExecVnode, p.PBSJob.ExecHost2)
	if err != nil || len(hosts) == 0 {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool { return !pbs.SameHost(name, hosts[0]) })
}

// nameOf returns the name under which the report already has a host, or host if it has none. PBS
// may use the long name of a host that uses the short one itself.
func (r *Report) nameOf(host string) string {
	if r.Hosts[host] != nil {
		return host
	}
	for _, name := range slices.AppendSeq(r.hostNames(), maps.Keys(r.Missing)) {
		if pbs.SameHost(name, host) {
			return name
		}
	}
	return host
}

// addNotes adds the notes of hooks on the part's host, with their times. Advice is not added,
// because it concerns only a part of the job.
func (r *Report) addNotes(p Part) {
	for _, note := range p.noted() {
		if here := p.measured(); !p.PBSJob.MotherSuperior && len(here) == 1 {
			note.text = here[0] + ": " + note.text
		}
		if !slices.Contains(r.Notes, note.text) {
			r.Notes, r.NoteTimes = append(r.Notes, note.text), append(r.NoteTimes, note.at)
		}
	}
}

// withoutHead completes a report that lacks the mother superior's. Only the mother superior has the
// exit status, and the names of hosts that wrote no report.
func (r *Report) withoutHead() {
	if r.PBSJob.MotherSuperior {
		return
	}
	r.ExitStatus = nil
	hosts, _ := pbs.Hosts(r.PBSJob.ExecVnode, r.PBSJob.ExecHost2)
	for _, host := range hosts {
		if r.Hosts[r.nameOf(host)] == nil {
			r.Missing[host] = "no report of it"
		}
	}
}
