package pbs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ParseQstat returns the jobs in the output of `qstat -f -F json`, in the order of their ids. zone
// is the time zone in which qstat ran. It fails if text is not such JSON. An output without jobs
// has none.
func ParseQstat(text []byte, zone *time.Location) ([]JobStatus, error) {
	var out struct {
		Jobs map[string]map[string]json.RawMessage `json:"Jobs"`
	}
	if err := checkLength("qstat", string(text)); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("the answer of qstat -F json: %w", err)
	}
	var jobs []JobStatus
	for _, id := range slices.Sorted(maps.Keys(out.Jobs)) {
		jobs = append(jobs, qstatJob{out.Jobs[id], zone}.status(id))
	}
	return jobs, nil
}

// qstatJob holds the attributes of one job. qstat writes a value as a number, an object or null if
// it looks like one, and as a string otherwise (src/cmds/qstat.c, prt_attr).
type qstatJob struct {
	attributes map[string]json.RawMessage
	zone       *time.Location
}

// substateTerminated is the substate of a job that was ended on request (src/include/job.h,
// JOB_SUBSTATE_TERMINATED).
const substateTerminated = 91

func (j qstatJob) status(id string) JobStatus {
	user, _, _ := strings.Cut(j.text("Job_Owner"), "@")
	if euser := j.text("euser"); euser != "" { // the job runs as this user; only managers see it
		user = euser
	}
	s := JobStatus{
		ID: id, Name: j.text("Job_Name"), User: user, Queue: j.text("queue"), Project: j.text("project"),
		Account: j.text("Account_Name"), State: j.text("job_state"), Comment: j.text("comment"),
		SessionID: j.number("session_id"), RunCount: j.number("run_count"), RunVersion: j.number("run_version"),
		ExecHost: j.text("exec_host"), ExecVnode: j.text("exec_vnode"),
		ResourceList: j.resources("Resource_List"), ResourcesUsed: j.resources("resources_used"),
		Terminated: j.number("substate") == substateTerminated,
	}
	if n, err := strconv.Atoi(j.text("Exit_status")); err == nil {
		s.ExitStatus = &n
	}
	if strings.Contains("QHWTM", s.State) { // it may have the figures of an earlier run
		s.ResourcesUsed, s.ExitStatus = nil, nil
	} else {
		s.Start = j.time("stime")
	}
	if s.Ended() {
		s.End = j.time("obittime")
		for _, name := range []string{"history_timestamp", "mtime"} { // of a job that did not run, or an older PBS
			if s.End.IsZero() {
				s.End = j.time(name)
			}
		}
	}
	return s
}

// text returns an attribute as the server has it: a string, or what qstat took for JSON.
func (j qstatJob) text(name string) string { return plain(j.attributes[name]) }

func plain(raw json.RawMessage) string {
	var text string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return ""
	}
	return compact.String()
}

func (j qstatJob) number(name string) int {
	n, err := strconv.Atoi(j.text(name))
	if err != nil {
		return 0
	}
	return n
}

// time reads "Sun Nov 29 01:25:12 2026", or seconds since 1970.
func (j qstatJob) time(name string) time.Time {
	text := j.text(name)
	if t, err := time.ParseInLocation(time.ANSIC, text, j.zone); err == nil {
		return t
	}
	return seconds(text)
}

func (j qstatJob) resources(name string) map[string]string {
	var values map[string]json.RawMessage
	if json.Unmarshal(j.attributes[name], &values) != nil {
		return nil
	}
	resources := make(map[string]string, len(values))
	for name, raw := range values {
		resources[name] = plain(raw)
	}
	return resources
}
