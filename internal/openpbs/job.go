package openpbs

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// The attributes of a job that are used here (src/lib/Libattr/master_job_attr_def.xml,
// src/resmom/mom_hook_func.c).
const (
	attrResourceList  = "Resource_List"
	attrResourcesUsed = "resources_used"
	attrSchedselect   = "schedselect"
	variableList      = "Variable_List"
)

// jobAttributes lists these attributes in the order in which MoM writes them (JOB_ATR_... in
// src/include/job.h), followed by those that run_hook adds.
var jobAttributes = []string{"Job_Name", attrResourcesUsed, "queue", "server", "Account_Name",
	"exec_host2", "exec_vnode", "Join_Path", attrResourceList, attrSchedselect, "session_id", "euser", "egroup",
	"run_count", "job_kill_delay", "Exit_status", "project", "run_version", "_msmom", "_stdout_file", "_stderr_file"}

// attributes holds the attributes of one job. If an attribute occurs twice with different values,
// neither is used.
type attributes struct {
	values map[attribute]string
	twice  map[attribute]bool
	last   int // the largest index in jobAttributes so far
}

type attribute struct{ name, resource string }

func (a attribute) String() string {
	if a.resource == "" {
		return a.name
	}
	return a.name + "[" + a.resource + "]"
}

func newAttributes() *attributes {
	return &attributes{values: map[attribute]string{}, twice: map[attribute]bool{}}
}

// add adds the content of a line. It reports whether MoM may have written the line after those that
// were added before.
func (a *attributes) add(name, resource, value string) (inOrder bool) {
	at := slices.Index(jobAttributes, name)
	if at < 0 || (resource != "") != (name == attrResourceList || name == attrResourcesUsed) {
		return true
	}
	inOrder = at >= a.last
	a.last = max(at, a.last)
	key := attribute{name, resource}
	if before, there := a.values[key]; a.twice[key] || there && before != value {
		delete(a.values, key)
		a.twice[key] = true
		return inOrder
	}
	a.values[key] = value
	return inOrder
}

// contradiction returns the name of an attribute that occurs twice, or "". It ignores MoM's
// measurements (resources_used), which decide nothing.
func (a *attributes) contradiction() string {
	var names []string
	for key := range a.twice {
		if key.name != attrResourcesUsed {
			names = append(names, key.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// job returns the job with these attributes. An invalid number, and a name without a user, count as
// missing.
func (a *attributes) job(id string) *hostapi.Job {
	text := func(name string) string { return valid(a.values[attribute{name: name}]) }
	job := &hostapi.Job{
		ID:             id,
		Name:           text("Job_Name"),
		Owner:          hostapi.Owner{User: text("euser"), UID: -1, GID: -1},
		Queue:          text("queue"),
		Project:        text("project"),
		Account:        text("Account_Name"),
		Server:         text("server"),
		ExecVnode:      text("exec_vnode"),
		ExecHost2:      text("exec_host2"),
		Schedselect:    text(attrSchedselect),
		ResourceList:   a.resources(attrResourceList),
		ResourcesUsed:  a.resources(attrResourcesUsed),
		StdoutFile:     text("_stdout_file"),
		StderrFile:     text("_stderr_file"),
		JoinPath:       text("Join_Path"),
		MotherSuperior: text("_msmom") == "True",
		KillDelay:      a.number("job_kill_delay", 0),
		ExitStatus:     a.number("Exit_status", math.MinInt32),
	}
	if strings.ContainsAny(job.Owner.User, "/\n:") {
		job.Owner.User = ""
	}
	if n := a.number("session_id", 0); n != nil {
		job.SessionID = *n
	}
	if n := a.number("run_count", 0); n != nil {
		job.RunCount = *n
	}
	if n := a.number("run_version", 0); n != nil {
		job.RunVersion = *n
	}
	return job
}

func (a *attributes) number(name string, lowest int) *int {
	n, err := strconv.ParseInt(a.values[attribute{name: name}], 10, 32)
	if err != nil || int(n) < lowest {
		return nil
	}
	i := int(n)
	return &i
}

func (a *attributes) resources(list string) hostapi.Resources {
	var r hostapi.Resources
	for key, value := range a.values {
		if key.name == list {
			if r == nil {
				r = hostapi.Resources{}
			}
			r[key.resource] = valid(value)
		}
	}
	return r
}
