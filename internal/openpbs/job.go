package openpbs

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// The attributes of a job that are of use here (src/lib/Libattr/master_job_attr_def.xml,
// src/resmom/mom_hook_func.c).
const (
	attrResourceList  = "Resource_List"
	attrResourcesUsed = "resources_used"
	attrSchedselect   = "schedselect"
	variableList      = "Variable_List"
)

// jobAttributes are those attributes in the order in which MoM writes them (JOB_ATR_... in
// src/include/job.h), and what run_hook adds behind them.
var jobAttributes = []string{"Job_Name", attrResourcesUsed, "queue", "server", "Account_Name",
	"exec_host2", "exec_vnode", "Join_Path", attrResourceList, attrSchedselect, "session_id", "euser", "egroup",
	"run_count", "job_kill_delay", "Exit_status", "project", "run_version", "_msmom", "_stdout_file", "_stderr_file"}

// attributes are those of one job. Neither value of an attribute that is said twice in different
// words is believed.
type attributes struct {
	values map[attribute]string
	twice  map[attribute]bool
	last   int // the place in jobAttributes of the one that is furthest behind
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

// add takes over what a line says, and reports whether MoM may have written the line behind those
// that were added before it.
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

// contradiction names an attribute that is said twice; "" when there is none. MoM's measurements so
// far (resources_used) decide nothing.
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

// job is what the attributes say. A number that is none, and a name that no user has, are as if not
// said.
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
