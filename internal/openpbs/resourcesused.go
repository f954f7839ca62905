package openpbs

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/usage"
)

// addUsed adds the usage of the event's jobs, and returns what it cannot add.
func (e *Event) addUsed(c *Changes, out *hostapi.Outcome, custom Custom) (dropped []string) {
	may := allowedIn(e.Request.Event)
	unknown := map[string]bool{}
	used := e.used(out, custom)
	for _, job := range slices.Sorted(maps.Keys(used)) {
		switch {
		case job == "" && !may.used || job != "" && may.jobs && e.Request.JobList[job] == nil:
			continue
		case job != "" && !may.jobs:
			dropped = append(dropped, "resources_used of job "+job)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(used[job])) {
			value := used[job][name]
			switch {
			case name == "" || nameLength(name) != len(name):
			case !custom.Knows(name):
				unknown[name] = true
			default:
				c.add(verbUsed, job, name, resourceType(name, value), oneLine(value))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		dropped = append(dropped, "resources_used."+name+", which the server does not know")
	}
	return dropped
}

// used returns the usage of the event's jobs by their ids; event.job is "".
func (e *Event) used(out *hostapi.Outcome, custom Custom) map[string]hostapi.Resources {
	all := map[string]hostapi.Resources{}
	add := func(id string, job *hostapi.Job, u *hostapi.JobUpdate) {
		r := hostapi.Resources{}
		maps.Copy(r, u.ResourcesUsed)
		delete(r, "walltime")
		delete(r, "ncpus")
		byHost := map[string]string{}
		if u.Diag != "" {
			byHost[DiagMessages] = diagOf(e.Request.Node, u.Diag)
		}
		if len(u.ResourcesUsed) > 0 && u.Usage != nil && e.reportsUsage() {
			byHost[HostUsage] = usageOf(e.Request.Node, u.Usage)
		}
		for _, name := range []string{DiagMessages, HostUsage} {
			switch _, set := r[name]; {
			case set: // by a site's hook
			case byHost[name] != "":
				r[name] = byHost[name]
			case custom.Knows(name) && e.unites(job):
				r[name] = "{}"
			}
		}
		if len(r) > 0 {
			all[id] = r
		}
	}
	add("", e.Request.Job,
		&hostapi.JobUpdate{ResourcesUsed: out.ResourcesUsed, Usage: out.Usage, Diag: out.Diag})
	for id, job := range e.Request.JobList {
		if out.Jobs[id] == nil {
			add(id, job, &hostapi.JobUpdate{})
		}
	}
	for id, u := range out.Jobs {
		if u != nil {
			add(id, e.Request.JobList[id], u)
		}
	}
	return all
}

// logDiag adds a line to MoM's log for each job with a problem that MoM does not know yet. If the
// server has no diag_messages, MoM never learns it. Then exechost_periodic has no line, because it
// would repeat the line each time.
//
// An exechost_periodic may run beside the epilogue. MoM wrote the input of each before it had the
// other's answer, so both have the line. Either answer may be lost, so neither can leave it out.
func (e *Event) logDiag(c *Changes, out *hostapi.Outcome, custom Custom) {
	log := func(job *hostapi.Job, diag string) {
		if job != nil && diag != "" && job.ResourcesUsed[DiagMessages] != diagOf(e.Request.Node, diag) {
			c.LogJob(job.ID, "hookhost: "+diag)
		}
	}
	if allowedIn(e.Request.Event).used {
		log(e.Request.Job, out.Diag)
	}
	if !custom.Knows(DiagMessages) {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(out.Jobs)) {
		if u := out.Jobs[id]; u != nil {
			log(e.Request.JobList[id], u.Diag)
		}
	}
}

// unites reports whether MoM merges this event's value for job with those of other hosts. The
// mother superior does so only for strings that its own hook has set
// (src/resmom/mom_updates_bundle.c, encode_used). The hook has to set an empty object, because it
// cannot know whether a sister has sent anything. A sister sends its values with each poll, and
// after its epilogue, which precedes the mother superior's.
func (e *Event) unites(job *hostapi.Job) bool {
	if job == nil || !job.MotherSuperior || !e.reportsUsage() {
		return false
	}
	hosts, err := pbs.Hosts(job.ExecVnode, job.ExecHost2)
	return err == nil && len(hosts) > 1
}

// reportsUsage reports whether MoM passes resources_used of this event on to the server, and all
// that the job has used so far is known.
func (e *Event) reportsUsage() bool {
	return e.Request.Event == hostapi.EventEpilogue || e.Request.Event == hostapi.EventPeriodic
}

// Incomplete extends the answer to an epilogue that was not carried out. It adds that
// resources_used is only what MoM knew before; text is the reason. Other events stay unchanged, and
// so do all if the server does not know the resource.
func (e *Event) Incomplete(c *Changes, text string, custom Custom) {
	if e.Request.Event != hostapi.EventEpilogue || !custom.Knows(DiagMessages) {
		return
	}
	const says = "resources_used is incomplete: "
	told := map[string]string{}
	if json.Unmarshal([]byte(e.Request.Job.ResourcesUsed[DiagMessages]), &told) != nil {
		told = map[string]string{}
	}
	told[e.Request.Node] = strings.TrimSpace(told[e.Request.Node] + " " + says + oneLine(text))
	b, err := json.Marshal(told)
	if err != nil { // a map of strings
		return
	}
	at := slices.IndexFunc(c.List, func(change Change) bool { return change.Verb != verbLog })
	used := Change{verbUsed, []string{"", DiagMessages, typeString, string(b)}}
	c.List = slices.Insert(c.List, max(at, 0), used)
}

// diagOf returns this host's entry of diag_messages, for the mother superior to merge with others:
// JSON without blanks around it.
func diagOf(node, diag string) string {
	b, err := json.Marshal(map[string]string{node: oneLine(diag)})
	if err != nil { // a map of strings
		return "{}"
	}
	return string(b)
}

// usageOf returns this host's entry of host_usage, likewise; "" if nothing was measured.
func usageOf(node string, h *hostapi.HostUsage) string {
	entry := usage.HostEntry(h)
	if entry == "" {
		return ""
	}
	b, err := json.Marshal(map[string]json.RawMessage{node: json.RawMessage(entry)})
	if err != nil { // the entry is JSON
		return ""
	}
	return string(b)
}
