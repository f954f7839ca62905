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

// Decode reads the input file that MoM writes for a hook (src/resmom/mom_hook_func.c, run_hook), and the lines that a caller has put
// behind it: state and comment of vnodes. Every error is one line of KindJob.
//
// The file is text without any escapes, and much of it is a user's: the job's name, its account, its paths, Variable_List, and at launch
// program, arguments and environment, in which newlines are nothing unusual. A user can therefore add lines that look like
// MoM's. MoM's own are always there too, in a fixed order, and that tells:
//
//   - id: outside of launch the first one is MoM's, as nothing of the user's is before it. At launch program, arguments and
//     environment are; a file that has two ids is refused.
//   - an attribute of the job that is said twice in different words is believed neither way. An event that sets up is refused; one
//     that ends a job is carried out without the attribute, as a user must not be able to keep what is left of a job.
//   - a line of another kind among those of the job is nobody's but the user's. Such an event is refused, or has no vnode_list.
//   - the last lines are MoM's: of type, alarm, hook_name and the host's name the last one counts. state and comment of a vnode are read
//     behind them only.
//   - in exechost_periodic, vnode_list stands before the first job. An attribute of a job that is said twice is left out. A job that
//     is named is taken to be there, whoever named it.
//
// What cannot be told apart is a line for an attribute that MoM does not write for this job: a resource that was not asked for, an account,
// session_id before launch, _msmom on a sister, a job in periodic that does not exist. None of them grants anything: what the job
// has here is exec_vnode, whose it is says euser, and MoM always writes both; the job's files are opened as its owner; and a job
// too many in the list keeps its owner's own leftovers alive and no one else's.
func Decode(in []byte) (*Event, error) {
	e, err := decode(in)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "input of a hook: %w", err)
	}
	return e, nil
}

func decode(in []byte) (*Event, error) {
	if len(in) > MaxInput {
		return nil, fmt.Errorf("%d bytes are more than %d", len(in), MaxInput)
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

// decoder is the text of an input file in three parts: body, footer, and what a caller has added.
type decoder struct {
	text        string
	lines       []line
	body, added []line
}

func (d *decoder) value(l line) string { return d.text[l.from:l.to] }

// footer reads what MoM writes last, of all events alike, and finds where it begins and ends.
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

// jobEvent reads the body of an event of a job: program, arguments and environment (launch) or pid (attach), the job, the vnodes.
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
	job, forged := newAttributes(), false
	for _, l := range d.body[first+1 : last+1] {
		switch {
		case l.object != "job", l.name == "id" && d.value(l) != id:
			forged = true
		default:
			job.add(l.name, l.resource, d.value(l))
		}
	}
	if setsUp(req.Event) {
		if forged {
			return fmt.Errorf("job %s: a value of the job holds lines in the form of pbs_mom's", id)
		}
		if name := job.contradiction(); name != "" {
			return fmt.Errorf("job %s: pbs.event().job.%s: said twice", id, name)
		}
	}
	req.Job = job.job(id)
	if !forged {
		req.VnodeList = d.vnodes(d.body[last+1:])
	}
	switch req.Event {
	case hostapi.EventLaunch:
		return d.launch(e, d.body[:first], d.body[first].start)
	case hostapi.EventAttach:
		return d.attach(e, d.body[:first])
	}
	return nil
}

// momList ends the names of the lists of hosts of a job that may fail on some (failed_mom_list): they stand behind vnode_list.
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
	said := map[string]*attributes{}
	for _, l := range jobs {
		if l.object != "job_list" || hostapi.CheckJobID(l.of) != nil {
			continue
		}
		job := said[l.of]
		if job == nil {
			job = newAttributes()
			said[l.of] = job
		}
		job.add(l.name, l.resource, d.value(l))
	}
	req.JobList = make(map[string]*hostapi.Job, len(said))
	for id, job := range said {
		req.JobList[id] = job.job(id)
	}
}

// vnodes reads MoM's vnode_list and what a caller has added to it. Of what is said twice the last word counts: in an event of a
// job MoM has it.
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
