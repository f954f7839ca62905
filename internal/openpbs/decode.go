package openpbs

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// Decode reads the input file that MoM writes for a hook (src/resmom/mom_hook_func.c, run_hook). A
// caller may have appended lines: state and comment of vnodes. Every error is one line of KindJob.
//
// The file is text without escapes. Users control much of it: the job's name, account, paths, texts
// in Resource_List and select, Variable_List, and at launch program, arguments and environment. All
// of these may contain newlines, so a user can add lines that look like MoM's. A user can neither
// remove a line of MoM nor change the order in which MoM writes. These rules distinguish the lines:
//
//   - id: outside of launch the first one is MoM's, because no user text precedes it. At launch,
//     program, arguments and environment do; a file with two ids is refused.
//   - Attributes of a job are in MoM's order. An event that sets up is refused if an attribute
//     follows a later one, is repeated with a different value, or is mixed with lines of another
//     kind. The refusal names the line, and the value that contains it.
//   - An event that ends a job is carried out in any case: a user must not be able to prevent the
//     clean-up of a job. A repeated attribute is left out. After a line of another kind among those
//     of the job, vnode_list is ignored.
//   - The last lines are MoM's: for type, alarm, hook_name and the host's name the last one counts.
//     state and comment of a vnode are read only after them.
//   - In exechost_periodic, vnode_list precedes the first job. The lines of a job are together and
//     in order. If they are not, or an attribute is repeated, only the job's id is used, no matter
//     who wrote it.
//
// One kind of forged line remains: it is in order, and MoM writes no such line for this job. After
// Output_Path and within Resource_List it would be an entry of Resource_List. Therefore hooks get
// only entries that limit the job, and those that schedselect requests. MoM writes exec_vnode,
// schedselect, euser and egroup for every job, so they cannot be added. The others are the user's
// own choice (Account_Name), or concern processes that belong to the user anyway (session_id,
// Exit_status, _msmom on a sister).
func Decode(in []byte) (*Event, error) {
	e, err := decode(in)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "input of a hook: %w", err)
	}
	return e, nil
}

func decode(in []byte) (*Event, error) {
	if len(in) > maxInput {
		return nil, fmt.Errorf("%d bytes are more than %d", len(in), maxInput)
	}
	if bytes.IndexByte(in, 0) >= 0 {
		return nil, errors.New("holds a NUL byte")
	}
	d := decoder{text: string(in)}
	d.lines = scan(d.text)
	if d.lines == nil {
		return nil, errors.New("does not begin with a line of pbs_mom's")
	}
	e, err := d.footer()
	if err != nil {
		return nil, err
	}
	if e.Request.Event.ForJob() {
		return e, d.jobEvent(e)
	}
	d.hostEvent(e)
	return e, nil
}

// decoder holds the text of an input file in three parts: body, footer, and the lines that a caller
// added.
type decoder struct {
	text        string
	lines       []line
	body, added []line
}

func (d *decoder) value(l line) string { return d.text[l.from:l.to] }

// footer reads what MoM writes last, in the same way for all events, and finds its beginning and
// end.
func (d *decoder) footer() (*Event, error) {
	last := map[string]int{}
	for i, l := range d.lines {
		switch {
		case l.object == "node":
			last["node"] = i
		case l.object == "event" && l.resource == "":
			last[l.name] = i
		}
	}
	at, ok := last["type"]
	if !ok {
		return nil, errors.New("pbs.event().type: missing")
	}
	event, err := hostapi.ParseEvent(d.value(d.lines[at]))
	if err != nil {
		return nil, fmt.Errorf("pbs.event().type: %w", err)
	}
	e := &Event{Request: &hostapi.Request{Event: event}}
	begin, end := at, at
	if i, ok := last["node"]; ok {
		e.Request.Node = valid(d.value(d.lines[i]))
		begin = min(begin, i)
	}
	for _, name := range []string{"hook_name", "alarm"} {
		i, ok := last[name]
		if !ok || i < at {
			continue
		}
		end = i
		switch value := d.value(d.lines[i]); name {
		case "hook_name":
			e.Hook = oneLine(value)
		case "alarm":
			seconds, err := strconv.ParseUint(value, 10, 31)
			if err != nil {
				return nil, fmt.Errorf("pbs.event().alarm: %q is not a number of seconds", oneLine(value))
			}
			e.Alarm = time.Duration(seconds) * time.Second
		}
	}
	d.body, d.added = d.lines[:begin], d.lines[end+1:]
	return e, nil
}

// jobEvent reads the body of an event of a job: program, arguments and environment (launch) or pid
// (attach), the job, the vnodes.
func (d *decoder) jobEvent(e *Event) error {
	req := e.Request
	first, last, ids := -1, -1, 0
	for i, l := range d.body {
		if l.object != "job" || strings.HasSuffix(l.name, momList) {
			continue
		}
		last = i
		if l.name == "id" && l.resource == "" {
			ids++
			if first < 0 {
				first = i
			}
		}
	}
	switch {
	case first < 0:
		return errors.New("pbs.event().job.id: missing")
	case ids > 1 && req.Event == hostapi.EventLaunch:
		return errors.New("pbs.event().job.id: said twice")
	}
	id := d.value(d.body[first])
	if err := hostapi.CheckJobID(id); err != nil {
		return fmt.Errorf("pbs.event().job.id: %w", err)
	}
	job, foreign := newAttributes(), false
	for i, l := range d.body[first+1 : last+1] {
		inOrder := false
		switch {
		case l.object != "job", l.name == "id" && d.value(l) != id:
			foreign = true
		default:
			inOrder = job.add(l.name, l.resource, d.value(l))
		}
		if !inOrder && req.Event.Refusable() {
			return fmt.Errorf("job %s: a line that pbs_mom did not write: %s behind %s",
				id, oneLine(l.String()), d.holder(d.body[first+i]))
		}
	}
	if name := job.contradiction(); name != "" && req.Event.Refusable() {
		return fmt.Errorf("job %s: a line that pbs_mom did not write: pbs.event().job.%s is said twice", id,
			oneLine(name))
	}
	req.Job = job.job(id)
	e.Unasked = unasked(req.Job)
	if !foreign {
		req.VnodeList = vnodesHere(d.vnodes(d.body[last+1:]), req)
	}
	switch req.Event {
	case hostapi.EventLaunch:
		return d.launch(e, d.body[:first], d.body[first].start)
	case hostapi.EventAttach:
		return d.attach(e, d.body[:first])
	}
	return nil
}

// momList is the suffix of the lists of a job's hosts, some of which may fail (failed_mom_list).
// They follow vnode_list.
const momList = "_mom_list"

func (d *decoder) attach(e *Event, lines []line) error {
	for _, l := range lines {
		if l.object != "event" || l.name != "pid" {
			continue
		}
		pid, err := strconv.ParseUint(d.value(l), 10, 31)
		if err != nil {
			return fmt.Errorf("pbs.event().pid: %q is not a process", oneLine(d.value(l)))
		}
		e.Request.PID = int(pid)
		return nil
	}
	return errors.New("pbs.event().pid: missing")
}

// hostEvent reads the body of an event of the host: vnodes, then (periodic) jobs.
func (d *decoder) hostEvent(e *Event) {
	vnodes, jobs := d.body, d.body[:0]
	for i, l := range d.body {
		if l.object == "job_list" {
			vnodes, jobs = d.body[:i], d.body[i:]
			break
		}
	}
	req := e.Request
	req.VnodeList = d.vnodes(vnodes)
	if req.Event != hostapi.EventPeriodic {
		return
	}
	said, torn, before := map[string]*attributes{}, map[string]bool{}, ""
	phases := map[string]hostapi.Phase{}
	for _, l := range jobs {
		if l.object != "job_list" || hostapi.CheckJobID(l.of) != nil {
			continue
		}
		job := said[l.of]
		switch {
		case job == nil:
			job = newAttributes()
			said[l.of] = job
		case l.of != before:
			torn[l.of] = true
		}
		before = l.of
		if l.name == "substate" && l.resource == "" {
			if _, twice := phases[l.of]; twice {
				torn[l.of] = true
			}
			phases[l.of] = phaseOf(d.value(l))
		}
		if !job.add(l.name, l.resource, d.value(l)) {
			torn[l.of] = true
		}
	}
	req.JobList = make(map[string]*hostapi.Job, len(said))
	for id, job := range said {
		if torn[id] || job.contradiction() != "" {
			job = newAttributes()
			delete(phases, id)
		}
		req.JobList[id] = job.job(id)
		req.JobList[id].Phase = phases[id]
		unasked(req.JobList[id])
	}
}

// phaseOf returns whether a job runs or is suspended, and "" for every other substate
// (src/include/job.h, JOB_SUBSTATE_RUNNING, _SUSPEND, _SCHSUSP).
func phaseOf(substate string) hostapi.Phase {
	switch substate {
	case "42":
		return hostapi.PhaseRunning
	case "43", "45":
		return hostapi.PhaseSuspended
	}
	return ""
}

// holder names the content of a line, for a message about the following lines. After Variable_List
// it names the last variable.
func (d *decoder) holder(l line) string {
	text := oneLine(l.String())
	if l.object != "job" || l.name != variableList {
		return text
	}
	env := parseEnv(strings.TrimPrefix(d.value(l), quotes))
	if len(env) > 0 {
		text += ", variable " + oneLine(env[len(env)-1].name)
	}
	return text
}

// vnodes reads MoM's vnode_list and the additions of a caller. Of two contradictory lines the last
// one counts: in an event of a job it is MoM's.
func (d *decoder) vnodes(lines []line) map[string]*hostapi.Vnode {
	var all map[string]*hostapi.Vnode
	vnode := func(name string) *hostapi.Vnode {
		name = valid(name)
		if all == nil {
			all = map[string]*hostapi.Vnode{}
		}
		if all[name] == nil {
			all[name] = &hostapi.Vnode{}
		}
		return all[name]
	}
	for _, l := range lines {
		if l.object != "vnode_list" || l.of == "" {
			continue
		}
		v := vnode(l.of)
		switch {
		case l.name == "resources_available" && l.resource != "":
			if v.ResourcesAvailable == nil {
				v.ResourcesAvailable = hostapi.Resources{}
			}
			v.ResourcesAvailable[l.resource] = valid(d.value(l))
		case l.name == "sharing" && l.resource == "":
			v.Sharing = valid(d.value(l))
		}
	}
	for _, l := range d.added {
		if l.object != "vnode_list" || l.of == "" || l.resource != "" {
			continue
		}
		switch value := valid(d.value(l)); l.name {
		case "state":
			vnode(l.of).State = value
		case "comment":
			vnode(l.of).Comment = &value
		}
	}
	return all
}
