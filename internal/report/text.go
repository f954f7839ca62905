package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// WriteText writes the report for a person. Everything in it is printable.
func (r *Report) WriteText(w io.Writer) error {
	var b bytes.Buffer
	t := r.totals()
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s%s\n", label, printable(fmt.Sprintf(format, args...)))
	}
	line("Job", "%s", r.Job)
	if r.Name != "" {
		line("Name", "%s", r.Name)
	}
	line("Owner", "%s", r.Owner)
	line("State", "%s", r.state())
	if t.oomKills > 0 {
		line("", "OUT OF MEMORY: the kernel killed %s of the job%s", count(t.oomKills, "process", "processes"),
			r.oomWhere())
	}
	for _, host := range slices.Sorted(maps.Keys(r.DiagMessages)) {
		line("", "%s: %s", host, r.DiagMessages[host])
	}
	if r.Start != nil {
		line("Start", "%s", r.Start.Format(timeLayout))
	}
	if r.End != nil {
		line("End", "%s", r.End.Format(timeLayout))
	}
	if text := r.elapsed(t); text != "" && !r.NotStarted {
		line("Elapsed", "%s", text)
	}
	if text := t.cpu(); text != "" {
		line("CPU", "%s", text)
	}
	if text := r.memory(t); text != "" {
		line("Memory", "%s", text)
	}
	if r.Imbalance != nil {
		line("Balance", "%s", r.Imbalance)
	}
	for i, host := range slices.Sorted(maps.Keys(r.Missing)) {
		line([]string{"Missing", ""}[min(i, 1)], "%s: %s (%s)", host, r.Missing[host], r.unheard(host))
	}
	for i, w := range worlds(r.Hosts) {
		line([]string{"Ranks", ""}[min(i, 1)], "%s", w)
	}
	if t.hugetlb > 0 {
		line("Hugetlb", "%s peak", mib(t.hugetlb))
	}
	label := "Devices"
	for _, host := range r.hostNames() {
		for _, d := range r.Hosts[host].Devices {
			on := ""
			if len(r.Hosts) > 1 {
				on = host + ": "
			}
			line(label, "%s%s", on, deviceText(d))
			label = ""
		}
	}
	if text := t.waited(); text != "" {
		line("Waited", "%s", text)
	}
	if part := t.ofCPUs(t.throttled); part > worthTelling {
		line("Throttled", "%s by the cpu quota, %.0f%% of the cpu time that it could have had", clock(t.throttled),
			100*part)
	}
	for _, host := range r.hostNames() {
		if k := r.Hosts[host].Kill; k != nil && k.Stragglers > 0 {
			left := count(int64(k.Stragglers), "process", "processes")
			line("Left over", "%s on %s, ended by %s after %.2f s", left, host, k.Signal, k.Seconds)
		}
	}
	if len(r.Hosts) > 1 {
		r.writeHosts(&b)
	}
	for i, note := range r.Notes {
		line([]string{"Notes", ""}[min(i, 1)], "%s", note)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// oomWhere says on which hosts processes were killed, where there are several.
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
	text := " on " + strings.Join(hosts[:min(len(hosts), 8)], ", ")
	if more := len(hosts) - 8; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// unheard says what of a host that is missing is in the sums: what it has told while the job ran,
// or nothing.
func (r *Report) unheard(host string) string {
	if r.Hosts[host] == nil {
		return "its usage is not in the sums"
	}
	return "what it used since it last told is not in the sums"
}

// worthTelling is the part of a job's time from which on the text says that it was lost.
const worthTelling = 0.01

// leastWait is the shortest time that the text tells: less would be shown as 0.0 s.
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

const timeLayout = "2006-01-02 15:04:05 -0700"

// elapsed tells how long the job ran and, of a live one, how long it still may.
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

func (t totals) cpu() string {
	switch eff, ok := t.cpuEfficiency(); {
	case t.cput == nil && t.ncpus == 0:
		return ""
	case t.cput == nil:
		return count(int64(t.ncpus), "ncpu", "ncpus") + ", use not known"
	case t.ncpus == 0:
		return clock(*t.cput) + " used"
	case !ok:
		return fmt.Sprintf("%s used on %s", clock(*t.cput), count(int64(t.ncpus), "ncpu", "ncpus"))
	default:
		return fmt.Sprintf("%s used on %s, %.0f%% efficient", clock(*t.cput), count(int64(t.ncpus), "ncpu", "ncpus"),
			100*eff)
	}
}

// memory tells the peak and, on one host, where the number comes from and what page cache adds to
// it.
func (r *Report) memory(t totals) string {
	if t.mem == nil {
		if t.memLimit == nil {
			return ""
		}
		return mib(*t.memLimit) + " requested, use not known"
	}
	text := mib(*t.mem) + " peak"
	if eff, ok := t.memEfficiency(); ok {
		text += fmt.Sprintf(" of %s, %.0f%%", mib(*t.memLimit), 100*eff)
	}
	if len(r.Hosts) == 1 {
		for _, h := range r.Hosts {
			if h.MemSource != "" {
				text += " (" + h.MemSource + ")"
			}
			if h.CgroupPeakBytes != nil {
				text += ", " + mib(*h.CgroupPeakBytes) + " with page cache"
			}
		}
	}
	return text
}

// deviceText tells what the job did with a device, as far as that was measured.
func deviceText(d hostapi.DeviceUsage) string {
	name := []string{d.Resource}
	if d.Model != "" {
		name = append(name, d.Model)
	}
	parts := []string{strings.Join(append(name, cmp.Or(d.PCI, d.ID)), " ")}
	if d.UtilizationPercent != nil {
		parts = append(parts, fmt.Sprintf("%.0f%% used", *d.UtilizationPercent))
	}
	if d.MemPeakBytes != nil {
		parts = append(parts, mib(*d.MemPeakBytes)+" peak")
	}
	if d.EnergyJoules != nil {
		parts = append(parts, joules(*d.EnergyJoules))
	}
	if d.Returned {
		parts = append(parts, "given back")
	}
	return strings.Join(parts, ", ")
}

// writeHosts writes a line per host; a dash is what was not measured.
func (r *Report) writeHosts(b *bytes.Buffer) {
	table := tabwriter.NewWriter(b, 10, 0, 2, ' ', 0)
	fmt.Fprintln(table, "Hosts\tncpus\tcput\tmem\tlimit\toom kills")
	for _, name := range r.hostNames() {
		h := r.Hosts[name]
		kills := cell(h.OOMKills, func(n int64) string { return strconv.FormatInt(n, 10) })
		fmt.Fprintf(table, "  %s\t%d\t%s\t%s\t%s\t%s\n", printable(name), h.NCPUs, cell(h.CPUTSeconds, secondsText),
			cell(h.MemBytes, mib), cell(h.MemLimitBytes, mib), kills)
	}
	table.Flush() // into memory: cannot fail
}
