package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/usage"
)

// writeUse writes the job's use of cpus, memory and GPUs, together and host by host.
func (r *Report) writeUse(p sheet, t totals) {
	r.writeTotal(p, "CPU", t.cpuBar(), t.cpu(), r.hostBars(t.hostCPU))
	r.writeTotal(p, "Memory", t.memBar(), t.memory(), r.hostBars(t.hostMemory))
	if h := r.onlyHost(); h != nil && h.CgroupPeakBytes != nil && h.MemBytes != nil &&
		*h.CgroupPeakBytes > *h.MemBytes+*h.MemBytes/2 {
		p.line("", "%s with page cache", size(*h.CgroupPeakBytes))
	}
	gpus := r.gpuBars()
	if len(gpus) == 1 {
		p.bars("GPU", &gpus[0], nil)
	} else if mean, ok := r.gpuUtilization(); ok {
		mean /= 100
		p.bars("GPU", &bar{part: &mean, amount: fmt.Sprintf("mean of %d GPUs", len(gpus))}, gpus)
	}
}

// writeTotal writes the bar of all hosts, or the text if no part is known, and the bars of each.
func (r *Report) writeTotal(p sheet, label string, all *bar, text string, each []bar) {
	if all == nil && text != "" {
		all = &bar{amount: text}
	}
	if all != nil {
		p.bars(label, all, each)
	}
}

// nameColumns returns how many columns a text has before its bars.
func (r *Report) nameColumns() int {
	columns := labelWidth
	for _, host := range r.hostNames() {
		columns = max(columns, min(utf8.RuneCountInString(printable(host))+3, nameWidth))
	}
	for _, b := range r.gpuBars() {
		columns = max(columns, min(utf8.RuneCountInString(printable(b.name))+3, nameWidth))
	}
	return columns
}

func (r *Report) onlyHost() *hostapi.HostUsage {
	if len(r.Hosts) != 1 {
		return nil
	}
	return r.Hosts[r.hostNames()[0]]
}

// hostBars returns the bar of each host, if there are several.
func (r *Report) hostBars(of func(*hostapi.HostUsage) bar) []bar {
	var list []bar
	for _, host := range r.hostNames() {
		if len(r.Hosts) > 1 {
			b := of(r.Hosts[host])
			b.name = host
			list = append(list, b)
		}
	}
	return list
}

func (t totals) cpuBar() *bar {
	eff, ok := t.cpuEfficiency()
	if !ok {
		return nil
	}
	return &bar{part: &eff, amount: fmt.Sprintf("%s, %s used", cpusOf(eff, t.ncpus), clock(*t.cput))}
}

func cpusOf(part float64, ncpus int) string {
	return fmt.Sprintf("%.1f of %s", part*float64(ncpus), count(int64(ncpus), "cpu", "cpus"))
}

// hostCPU is the bar of one host's cpus.
func (t totals) hostCPU(h *hostapi.HostUsage) bar {
	if h.CPUTSeconds == nil || t.walltime == nil {
		return bar{amount: "not known"}
	}
	cput := time.Duration(*h.CPUTSeconds * float64(time.Second))
	eff, ok := usage.CPUEfficiency(cput, *t.walltime, h.NCPUs)
	if !ok || t.exclusive || *t.walltime < leastRated {
		return bar{amount: clock(cput) + " used"}
	}
	return bar{part: &eff, amount: cpusOf(eff, h.NCPUs)}
}

func (t totals) memBar() *bar {
	eff, ok := t.memEfficiency()
	if !ok {
		return nil
	}
	return &bar{part: &eff, amount: fmt.Sprintf("%s of %s", size(*t.mem), size(*t.memLimit)), limits: true}
}

// hostMemory is the bar of one host's memory.
func (t totals) hostMemory(h *hostapi.HostUsage) bar {
	b := bar{amount: "not known", limits: true}
	if h.MemBytes != nil {
		b.amount = size(*h.MemBytes)
		if h.MemLimitBytes != nil {
			b.amount += " of " + size(*h.MemLimitBytes)
			if eff, ok := usage.MemEfficiency(*h.MemBytes, *h.MemLimitBytes); ok && !t.exclusive {
				b.part = &eff
			}
		}
	}
	if h.OOMKills != nil && *h.OOMKills > 0 {
		b.marked = true
		b.amount += ", " + count(*h.OOMKills, "OOM kill", "OOM kills")
	}
	return b
}

// gpuName returns the name of a GPU's line.
func (r *Report) gpuName(g gpu) string {
	name := strings.TrimPrefix(cmp.Or(g.PCI, g.ID), "0000:") // most nodes have no other domain
	if len(r.Hosts) > 1 {
		name = g.host + " " + name
	}
	return name
}

// gpuBars returns the bar of each GPU that was measured.
func (r *Report) gpuBars() []bar {
	var list []bar
	for _, g := range r.gpus() {
		part := g.percent / 100
		var amounts []string
		if g.MemPeakBytes != nil && *g.MemPeakBytes > 0 {
			amounts = append(amounts, size(*g.MemPeakBytes)+" peak")
		} else if g.percent == 0 {
			amounts = append(amounts, "not used")
		}
		if g.EnergyJoules != nil && *g.EnergyJoules > 0 {
			amounts = append(amounts, joules(*g.EnergyJoules))
		}
		list = append(list, bar{name: r.gpuName(g), part: &part, amount: strings.Join(amounts, ", ")})
	}
	return list
}
