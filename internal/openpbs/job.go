package openpbs

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// The attributes of a job that are of use here (src/lib/Libattr/master_job_attr_def.xml, src/resmom/mom_hook_func.c).
const (
	attrResourceList  = "Resource_List"
	attrResourcesUsed = "resources_used"
)

var jobAttributes = []string{"Job_Name", "euser", "egroup", "queue", "project", "Account_Name", "server", "exec_vnode", "exec_host2", "schedselect",
	attrResourceList, attrResourcesUsed, "session_id", "run_count", "run_version", "job_kill_delay", "Join_Path",
	"Exit_status", "_msmom", "_stdout_file", "_stderr_file"}

// attributes are those of one job. Of one that is said twice in different words neither is believed.
type attributes struct {
	values map[attribute]string
	twice  map[attribute]bool
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

func (a *attributes) add(name, resource, value string) {
	if !slices.Contains(jobAttributes, name) || (resource != "") != (name == attrResourceList || name == attrResourcesUsed) {
		return
	}
	key := attribute{name, resource}
	if before, there := a.values[key]; a.twice[key] || there && before != value {
		delete(a.values, key)
		a.twice[key] = true
		return
	}
	a.values[key] = value
}

// contradiction names an attribute that is said twice; "" when there is none. What MoM has measured so far decides nothing.
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

// job is what the attributes say. A number that is none, and a name that no user has, are as if not said.
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
		Schedselect:    text("schedselect"),
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
