package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/hostapi/hooktest"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// The test calls the hook the way hookhost does: through JSON, with events found by the hook's
// methods. The hook has no more events than it needs.
func TestThroughHostapi(t *testing.T) {
	kernfstest.NeedRoot(t)
	node := newNode(t, 0, nil)
	h := hooktest.New(t, newHook,
		`{"cgroup":{"prefix":"`+node.hook.policy.Cgroup.Prefix+`"},"walltime":{"maximum":"1h","signals":["@60"],"overtime":"10s"}}`)
	must.Equal(t, "events", []hostapi.Event{hostapi.EventBegin, hostapi.EventResize, hostapi.EventStartup,
		hostapi.EventPeriodic}, h.Events())
	job := &hostapi.Job{ID: "1.srv", ResourceList: hostapi.Resources{"walltime": "00:30:00"}}
	mom := &hostapi.ProcessID{PID: 1}
	call := func(req *hostapi.Request) *hostapi.Outcome {
		t.Helper()
		out, err := h.Call(t.Context(), req)
		if err != nil {
			t.Fatalf("%s: %v", req.Event, err)
		}
		return out
	}
	want := func(what string, next, limit time.Duration, gotNext time.Duration, gotLimit *time.Duration) {
		t.Helper()
		if gotNext != next || gotLimit == nil || *gotLimit != limit {
			t.Errorf("%s: next call at %v, limit %v, want %v, %v", what, gotNext, gotLimit, next, limit)
		}
	}
	out := call(&hostapi.Request{Event: hostapi.EventBegin, Job: job, MoM: mom})
	want("begin", 29*time.Minute, 30*time.Minute, out.CallAtElapsed, out.WalltimeLimit)
	job.State = out.State

	job.ResourceList = hostapi.Resources{"walltime": "02:00:00"}
	out = call(&hostapi.Request{Event: hostapi.EventResize, Job: job})
	want("resize", 59*time.Minute, time.Hour, out.CallAtElapsed, out.WalltimeLimit)
	must.Equal(t, "stderr", []string{"=>> PBS: walltime: 02:00:00 was asked for, but no job of this node runs longer " +
		"than 01:00:00"}, out.JobStderr)
	job.State, job.Elapsed = out.State, 50*time.Minute

	for _, id := range []string{"2.srv", "3.srv"} { // the marks on their cgroups name the MoM
		j := node.begin(id, nil)
		record := cgroup.JobMark{Begin: &hostapi.Request{Event: hostapi.EventBegin, Job: node.jobs[id], MoM: mom}}
		must.NoError(t, j.SetJobMark(record))
	}
	unknown := &hostapi.Job{ID: "2.srv", ResourceList: hostapi.Resources{"walltime": "600", "walltime_signal": "@5"},
		Elapsed: 700 * time.Second}
	odd := &hostapi.Job{ID: "3.srv", ResourceList: hostapi.Resources{"walltime": "soon"}, State: json.RawMessage(`"x"`)}
	list := map[string]*hostapi.Job{"1.srv": job, "2.srv": unknown, "3.srv": odd,
		"4.srv": {ID: "4.srv", ResourceList: hostapi.Resources{"walltime": "60"}}}
	jobs := call(&hostapi.Request{Event: hostapi.EventStartup, JobList: list}).Jobs
	want("startup", 59*time.Minute, time.Hour, jobs["1.srv"].CallAtElapsed, jobs["1.srv"].WalltimeLimit)
	want("startup, unknown job", 700*time.Second, 600*time.Second, jobs["2.srv"].CallAtElapsed,
		jobs["2.srv"].WalltimeLimit)
	want("startup, unknown job that asks for nonsense", 59*time.Minute, time.Hour, jobs["3.srv"].CallAtElapsed,
		jobs["3.srv"].WalltimeLimit)
	if u := jobs["4.srv"]; u != nil {
		t.Errorf("startup, a job in the middle of its begin: %+v", u)
	}
	if jobs["1.srv"].State != nil || jobs["2.srv"].State == nil || jobs["3.srv"].State == nil {
		t.Errorf("states %s, %s, %s", jobs["1.srv"].State, jobs["2.srv"].State, jobs["3.srv"].State)
	}
	jobs = call(&hostapi.Request{Event: hostapi.EventPeriodic, JobList: list}).Jobs
	if u := jobs["1.srv"]; u.CallAtElapsed != 59*time.Minute || u.State != nil || u.JobStderr != nil {
		t.Errorf("periodic: %+v", u)
	}
	jobs = call(&hostapi.Request{Event: hostapi.EventPeriodic, Partial: true,
		JobList: map[string]*hostapi.Job{"1.srv": job}}).Jobs
	if u := jobs["1.srv"]; len(jobs) != 1 || u.CallAtElapsed != 59*time.Minute || u.State != nil || u.JobStderr != nil {
		t.Errorf("a report of a live job: %+v", u)
	}
}

func TestBeginRejects(t *testing.T) {
	kernfstest.NeedRoot(t)
	h := hooktest.New(t, newHook, `{"cgroup":{"prefix":"`+testPrefix()+`"}}`)
	for value, want := range map[string]string{
		"FOO@3":   `job 1.srv: walltime_signal: "FOO@3": "FOO" is not a signal`,
		"USR1@60": "job 1.srv: walltime_signal: USR1@60 is not before the end of a walltime of 00:01:00",
		"KILL@3":  `job 1.srv: walltime_signal: "KILL@3": SIGKILL is no warning: no program can catch it`} {
		_, err := h.Call(t.Context(), &hostapi.Request{Event: hostapi.EventBegin,
			Job: &hostapi.Job{ID: "1.srv",
				ResourceList: hostapi.Resources{"walltime": "60", "walltime_signal": value}}})
		if hostapi.KindOf(err) != hostapi.KindJob || err.Error() != want {
			t.Errorf("%s: %v (%s), want %s", value, err, hostapi.KindOf(err), want)
		}
	}
	// The host does not call for a job without limits.
	out, err := h.Call(t.Context(), &hostapi.Request{Event: hostapi.EventBegin, Job: &hostapi.Job{ID: "1.srv"}})
	if err != nil || out.CallAtElapsed != 0 || *out.WalltimeLimit != 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	if _, err := hooktest.Try(t, newHook,
		hostapi.SetupData{Config: []byte(`{"walltime":{"signals":["x"]}}`)}); hostapi.KindOf(err) != hostapi.KindNode ||
		!strings.Contains(err.Error(), "walltime.signals") {
		t.Errorf("%v", err)
	}
}
