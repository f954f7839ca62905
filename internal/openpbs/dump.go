package openpbs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// dump is an event as a hook reads it through the pbs module, written as JSON. pbs.event()'s
// attributes stand by their names, and node_name is pbs.get_local_nodename().
type dump struct {
	Event     string                `json:"event"`
	Hook      string                `json:"hook_name"`
	Node      string                `json:"node_name"`
	Alarm     json.Number           `json:"alarm"`
	PID       int                   `json:"pid"`
	Progname  string                `json:"progname"`
	Argv      []string              `json:"argv"`
	Env       map[string]string     `json:"env"`
	Job       map[string]any        `json:"job"`
	JobList   map[string]dumpObject `json:"job_list"`
	VnodeList map[string]dumpObject `json:"vnode_list"`
}

type dumpObject = map[string]any

// dumpNames are attributes of a job that the module shows as methods.
var dumpNames = map[string]string{"in_ms_mom()": "_msmom", "stdout_file()": "_stdout_file",
	"stderr_file()": "_stderr_file"}

// DecodeDump reads the JSON of an event that was read through the pbs module. Values are as the
// module gives them. A duration is a number of seconds there, and the values of env have the
// backslashes that they have in IN. A job without in_ms_mom() is on its mother superior. Every
// error is one line of KindJob.
func DecodeDump(b []byte) (*Event, error) {
	e, err := decodeDump(b)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "dump of an event: %w", err)
	}
	return e, nil
}

func decodeDump(b []byte) (*Event, error) {
	if len(b) > MaxInput {
		return nil, fmt.Errorf("%d bytes are more than %d", len(b), MaxInput)
	}
	var in dump
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	if err := decoder.Decode(&in); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one JSON value")
	}
	event, err := hostapi.ParseEvent(in.Event)
	if err != nil {
		return nil, err
	}
	e := &Event{Request: &hostapi.Request{Event: event, Node: in.Node}, Hook: oneLine(in.Hook)}
	if seconds, err := strconv.ParseUint(in.Alarm.String(), 10, 31); err == nil {
		e.Alarm = time.Duration(seconds) * time.Second
	}
	e.Request.VnodeList = dumpVnodes(in.VnodeList)
	if !event.ForJob() {
		return e, e.dumpJobs(event, in.JobList)
	}
	id, _ := in.Job["id"].(string)
	if err := hostapi.CheckJobID(id); err != nil {
		return nil, fmt.Errorf("job.id: %w", err)
	}
	if e.Request.Job, err = dumpJob(id, in.Job); err != nil {
		return nil, fmt.Errorf("job.%w", err)
	}
	e.Request.VnodeList = ownVnodes(e.Request.VnodeList, e.Request)
	switch event {
	case hostapi.EventAttach:
		e.Request.PID = in.PID
	case hostapi.EventLaunch:
		var env []variable
		for _, name := range slices.Sorted(maps.Keys(in.Env)) {
			env = append(env, parseVariable(name+"="+in.Env[name]))
		}
		e.setLaunch(in.Progname, in.Argv, env)
	}
	return e, nil
}

func (e *Event) dumpJobs(event hostapi.Event, list map[string]dumpObject) error {
	if event != hostapi.EventPeriodic {
		return nil
	}
	e.Request.JobList = make(map[string]*hostapi.Job, len(list))
	for id, object := range list {
		if err := hostapi.CheckJobID(id); err != nil {
			return fmt.Errorf("job_list: %w", err)
		}
		job, err := dumpJob(id, object)
		if err != nil {
			return fmt.Errorf("job_list.%s.%w", id, err)
		}
		e.Request.JobList[id] = job
	}
	return nil
}

func dumpJob(id string, object dumpObject) (*hostapi.Job, error) {
	a := newAttributes()
	a.add("_msmom", "", "True")
	for name, value := range object {
		if other, ok := dumpNames[name]; ok {
			name = other
			delete(a.values, attribute{name: name})
		}
		if list, ok := value.(map[string]any); ok {
			for resource, value := range list {
				if text, ok := dumpResource(resource, value); ok {
					a.add(name, resource, text)
				}
			}
			continue
		}
		text, ok := dumpValue(value)
		if !ok {
			return nil, fmt.Errorf("%s: not a value of an attribute", name)
		}
		a.add(name, "", text)
	}
	return a.job(id), nil
}

func dumpVnodes(list map[string]dumpObject) map[string]*hostapi.Vnode {
	var all map[string]*hostapi.Vnode
	for name, object := range list {
		if all == nil {
			all = map[string]*hostapi.Vnode{}
		}
		v := &hostapi.Vnode{}
		all[name] = v
		if list, ok := object["resources_available"].(map[string]any); ok {
			for resource, value := range list {
				if text, ok := dumpResource(resource, value); ok {
					if v.ResourcesAvailable == nil {
						v.ResourcesAvailable = hostapi.Resources{}
					}
					v.ResourcesAvailable[resource] = text
				}
			}
		}
		v.Sharing, _ = object["sharing"].(string)
		v.State, _ = object["state"].(string)
		if comment, ok := object["comment"].(string); ok {
			v.Comment = &comment
		}
	}
	return all
}

func dumpValue(value any) (string, bool) {
	switch v := value.(type) {
	case nil:
		return "", true
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		if v {
			return "True", true
		}
		return "False", true
	}
	return "", false
}

// dumpResource is dumpValue for a resource, without those that have no value.
func dumpResource(name string, value any) (string, bool) {
	number, ok := value.(json.Number)
	seconds, err := number.Int64()
	if ok && err == nil && pbs.Type(name) == typeDuration && 0 <= seconds && seconds < 1<<32 {
		return pbs.FormatDuration(time.Duration(seconds) * time.Second), true
	}
	text, ok := dumpValue(value)
	return text, ok && value != nil
}
