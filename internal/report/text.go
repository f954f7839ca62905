package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// WriteText writes the report for a person, 80 columns wide. Everything in it is printable.
func (r *Report) WriteText(w io.Writer) error { return r.writeText(w, pageColumns, false) }

func (r *Report) writeText(w io.Writer, columns int, blocks bool) error {
	p := &page{columns: max(columns, pageColumns), blocks: blocks, names: r.nameColumns()}
	p.line("Job", "%s", r.Job)
	if r.Name != "" {
		p.line("Name", "%s", r.Name)
	}
	p.line("Owner", "%s", r.ownerInQueue())
	state := "Outcome"
	if r.End == nil {
		state = "State"
	}
	if r.bad() {
		p.style = Bad
	}
	p.line(state, "%s", r.Outcome)
	p.style = Plain
	r.writeMessages(p)
	for i, a := range r.Advice {
		p.line(labelled("Advice", i), "%s", a)
	}
	r.writeFacts(p)
	if !r.NotStarted {
		r.writePlots(p)
	}
	notes, kernel := r.remarks()
	for i, note := range notes {
		p.line(labelled("Notes", i), "%s", note)
	}
	for i, message := range kernel {
		p.whole(labelled("Kernel", i), message)
	}
	return p.writeTo(w)
}

// labelled returns the label of the first of several lines, and none for the others.
func labelled(label string, i int) string {
	if i > 0 {
		return ""
	}
	return label
}

// writeFacts writes the facts about the job other than its identity, its state and its notes.
func (r *Report) writeFacts(p sheet) {
	t := r.totals()
	r.writeRequest(p)
	r.writeTimes(p, t)
	if !r.NotStarted {
		r.writeUse(p, t)
	}
	if i := r.Imbalance; len(r.Hosts) > mostBars && i.worthTelling() { // with fewer, the bars show it
		p.line("Balance", "%s", i)
	}
	for n, host := range slices.Sorted(maps.Keys(r.Missing)) {
		if n == mostBars {
			p.line("", "and %d more", len(r.Missing)-mostBars)
			break
		}
		p.line(labelled("Missing", n), "%s: %s (%s)", host, r.Missing[host], r.unheard(host))
	}
	for i, w := range worlds(r.Hosts) {
		p.line(labelled("Ranks", i), "%s", w)
	}
	if t.hugetlb > 0 {
		p.line("Hugetlb", "%s peak", size(t.hugetlb))
	}
	r.writeDevices(p)
	r.writeBilling(p)
	r.writeLosses(p, t)
}

// writeMessages writes what hooks reported to PBS about the job.
func (r *Report) writeMessages(p sheet) {
	hosts := slices.Sorted(maps.Keys(r.DiagMessages))
	for i, host := range hosts {
		if i == mostBars {
			p.whole("", "and messages of "+count(int64(len(hosts)-mostBars), "more host", "more hosts"))
			break
		}
		if text := r.DiagMessages[host]; !strings.Contains(text, killedProcess) && text != ownLimit {
			p.whole("", host+": "+text)
		}
	}
}

func (r *Report) writeTimes(p sheet, t totals) {
	switch {
	case r.NotStarted:
		p.line("End", "%s", r.End.Format(timeLayout))
	case r.Start != nil && r.End != nil && r.Start.Format(dayLayout) == r.End.Format(dayLayout):
		p.line("Ran", "%s to %s", r.Start.Format("2006-01-02 15:04:05"), r.End.Format("15:04:05 -0700"))
	case r.Start != nil && r.End != nil:
		p.line("Ran", "%s to %s", r.Start.Format(timeLayout), r.End.Format(timeLayout))
	case r.Start != nil:
		p.line("Start", "%s", r.Start.Format(timeLayout))
	case r.End != nil:
		p.line("End", "%s", r.End.Format(timeLayout))
	}
	if text := r.elapsed(t); text != "" && !r.NotStarted {
		p.line("Elapsed", "%s", text)
	}
}

// writeDevices writes each model once, if it is known, and devices whose use was not measured.
func (r *Report) writeDevices(p sheet) {
	label := "Devices"
	write := func(text string) {
		p.line(label, "%s", text)
		label = ""
	}
	measured := map[string]int64{}
	for _, g := range r.gpus() {
		if g.Model != "" {
			measured[g.Model]++
		}
	}
	for _, model := range slices.Sorted(maps.Keys(measured)) {
		write(fmt.Sprintf("%d x %s", measured[model], model))
	}
	for _, host := range r.hostNames() {
		for _, d := range r.Hosts[host].Devices {
			on := ""
			if len(r.Hosts) > 1 {
				on = host + ": "
			}
			if _, measured := utilization(d); !measured || d.Returned {
				write(on + deviceText(d))
			}
		}
	}
}

// writeBilling writes the job's energy and bill.
func (r *Report) writeBilling(p sheet) {
	if j := r.energy(); j != nil {
		p.line("Energy", "%s of processors and memory", joules(*j))
	}
	if units := r.billing(); units != nil {
		p.line("Billing", "%s", strings.TrimSuffix(strconv.FormatFloat(*units, 'f', 2, 64), ".00"))
	}
}

// energy returns the joules of all hosts' processors; nil if a host does not count them.
func (r *Report) energy() *float64 {
	sum := 0.0
	for _, h := range r.Hosts {
		if h.EnergyJoules == nil {
			return nil
		}
		sum += *h.EnergyJoules
	}
	if len(r.Hosts) == 0 {
		return nil
	}
	return &sum
}

// billing returns the mother superior's bill for the job, or nil if there is none.
func (r *Report) billing() *float64 {
	for _, host := range r.hostNames() {
		if units := r.Hosts[host].Billing; units != nil {
			return units
		}
	}
	return nil
}

// writeLosses writes what slowed the job down, and which processes it left behind.
func (r *Report) writeLosses(p sheet, t totals) {
	if text := t.waited(); text != "" {
		p.line("Waited", "%s", text)
	}
	if part := t.ofCPUs(t.throttled); part > worthTelling {
		p.line("Throttled", "%s by the cpu quota, %.0f%% of the cpu time that it could have had", clock(t.throttled),
			100*part)
	}
	for _, host := range r.hostNames() {
		if k := r.Hosts[host].Kill; k != nil && k.Stragglers > 0 {
			left := count(int64(k.Stragglers), "process", "processes")
			p.line("Left over", "%s on %s, ended by %s after %.2f s", left, host, k.Signal, k.Seconds)
		}
	}
}

// oomWhere names the hosts on which processes were killed, if there are several.
func (r *Report) oomWhere() string {
	if len(r.Hosts) < 2 {
		return ""
	}
	var hosts []string
	for _, host := range r.hostNames() {
		if n := r.Hosts[host].OOMKills; n != nil && *n > 0 {
			hosts = append(hosts, host)
		}
	}
	return " on " + named(hosts)
}

// unheard describes the part of a missing host in the sums: its usage reported while the job ran,
// or nothing.
func (r *Report) unheard(host string) string {
	if r.Hosts[host] == nil {
		return "its usage is not in the sums"
	}
	return "what it used since it last told is not in the sums"
}

// worthTelling is the part of a job's time from which on the text mentions a loss.
const worthTelling = 0.01

// leastWait is the shortest time that the text mentions: less would be shown as 0.0 s.
const leastWait = 100 * time.Millisecond

// waited names what the job's processes waited for.
func (t totals) waited() string {
	var parts []string
	for _, w := range []struct {
		what string
		d    time.Duration
	}{{"memory", t.memWait}, {"files", t.ioWait}, {"cpus", t.cpuWait}} {
		if part := t.ofElapsed(w.d); part > worthTelling && w.d >= leastWait {
			text := fmt.Sprintf("for %s %s, %.0f%% of the time", w.what, clock(w.d), 100*part)
			if w.what == "memory" && t.majorFaults > 0 {
				text += fmt.Sprintf(" (%s)", count(t.majorFaults, "major fault", "major faults"))
			}
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

const (
	timeLayout = "2006-01-02 15:04:05 -0700"
	dayLayout  = "2006-01-02 -0700"
)

// elapsed says how long the job ran and, for a live job, how much time is left.
func (r *Report) elapsed(t totals) string {
	if t.walltime == nil {
		return ""
	}
	text := clock(*t.walltime)
	if t.wallLimit != nil && *t.wallLimit > 0 {
		text += fmt.Sprintf(" of %s requested, %.0f%%", clock(*t.wallLimit),
			100*t.walltime.Seconds()/t.wallLimit.Seconds())
	}
	if left := r.WalltimeLeft; left != nil && r.End == nil {
		text += fmt.Sprintf("; %s left", secondsText(*left))
	}
	return text
}

// cpu is the text for a job whose efficiency is unknown.
func (t totals) cpu() string {
	switch {
	case t.cput == nil && t.ncpus == 0:
		return ""
	case t.cput == nil:
		return count(int64(t.ncpus), "cpu", "cpus") + ", use not known"
	case t.ncpus == 0:
		return clock(*t.cput) + " used"
	}
	return fmt.Sprintf("%s used on %s", clock(*t.cput), count(int64(t.ncpus), "cpu", "cpus"))
}

// memory is the text for a job for which the used part of its memory is unknown.
func (t totals) memory() string {
	switch {
	case t.mem != nil && t.memLimit != nil && !t.memPartial:
		return size(*t.mem) + " peak of " + size(*t.memLimit)
	case t.mem != nil:
		return size(*t.mem) + " peak"
	case t.memLimit != nil:
		return size(*t.memLimit) + " requested, use not known"
	}
	return ""
}

// deviceText describes the job's use of a device, as far as it was measured.
func deviceText(d hostapi.DeviceUsage) string {
	name := []string{d.Resource}
	if d.Model != "" {
		name = append(name, d.Model)
	}
	parts := []string{strings.Join(append(name, cmp.Or(d.PCI, d.ID)), " ")}
	if percent, ok := utilization(d); ok {
		parts = append(parts, fmt.Sprintf("%.0f%% used", percent))
	}
	if d.MemPeakBytes != nil {
		parts = append(parts, size(*d.MemPeakBytes)+" peak")
	}
	if d.EnergyJoules != nil {
		parts = append(parts, joules(*d.EnergyJoules))
	}
	if d.Returned {
		parts = append(parts, "given back")
	}
	return strings.Join(parts, ", ")
}
