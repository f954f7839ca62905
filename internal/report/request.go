package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/pbs"
)

// mostNamed is how many hosts are named in a line.
const mostNamed = 8

// writeRequest writes what the job asked for, and the hosts that it got.
func (r *Report) writeRequest(p sheet) {
	if text := r.request(); text != "" {
		p.line("Request", "%s", text)
	}
	writeHosts(p, r.allHosts(), r.totals().exclusive)
}

// writeHosts names the first hosts, and how many there are.
func writeHosts(p sheet, hosts []string, exclusive bool) {
	text := named(hosts)
	if len(hosts) > mostNamed {
		text = fmt.Sprintf("%d: %s", len(hosts), text)
	}
	if text != "" && exclusive {
		text += ", for this job alone"
	}
	if text != "" {
		p.line("Hosts", "%s", text)
	}
}

// named lists the first of many hosts, and how many more there are.
func named(hosts []string) string {
	text := strings.Join(hosts[:min(len(hosts), mostNamed)], ", ")
	if more := len(hosts) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// ownerInQueue returns the job's owner with its queue.
func (r *Report) ownerInQueue() string {
	if r.PBSJob == nil || r.PBSJob.Queue == "" {
		return r.Owner
	}
	return r.Owner + " in queue " + r.PBSJob.Queue
}

// request returns the request as for qsub -l: the chunks, the resources that no chunk has, where to
// place the chunks, and the walltime. pbs_mom knows the chunks with the server's defaults.
func (r *Report) request() string {
	if r.PBSJob == nil {
		return ""
	}
	list := maps.Clone(r.PBSJob.ResourceList)
	chunks := list["select"]
	if chunks == "" {
		chunks = r.PBSJob.Schedselect
	}
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	add("select", chunks)
	for _, name := range slices.Sorted(maps.Keys(list)) {
		inChunks := chunks != "" && (name == "nodes" || strings.Contains(chunks, ":"+name+"="))
		if !inChunks && !slices.Contains([]string{"select", "place", "walltime", "nodect", "mpiprocs"}, name) {
			add(name, list[name])
		}
	}
	if list["place"] != "free" {
		add("place", list["place"])
	}
	if limit := r.totals().wallLimit; limit != nil {
		add("walltime", pbs.FormatDuration(*limit))
	}
	return strings.Join(parts, ", ")
}

// allHosts returns the names of the job's hosts in PBS's order, or of those that are known.
func (r *Report) allHosts() []string {
	if r.PBSJob == nil {
		return r.hostNames()
	}
	hosts, err := pbs.Hosts(r.PBSJob.ExecVnode, r.PBSJob.ExecHost2)
	if err != nil || len(hosts) < len(r.Hosts) {
		return r.hostNames()
	}
	names := make([]string, len(hosts))
	for i, host := range hosts {
		names[i] = r.nameOf(host)
	}
	return names
}
