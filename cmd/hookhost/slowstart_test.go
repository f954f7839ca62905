package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// The daemon answers while a hook of the site hangs over its start. An event of a job that is on
// record waits for the hooks that it calls and for no others.
func TestHookThatHangsOverItsStartHoldsUpNoOther(t *testing.T) {
	must.BesideOthers(t)
	n := newNode(t)
	d := n.serve()
	const job = `{"event":"execjob_begin","job":{"id":"1.srv","owner":{"user":"root"},"mother_superior":true,` +
		`"resource_list":{"ncpus":"1","mem":"32mb"}}}`
	if r := n.send("execjob_begin", job); r.status != 0 {
		t.Fatalf("begin: %+v", r)
	}
	config := n.write("hang.toml", "event = \"exechost_startup\"\nmode = \"hang\"\n")
	d.stop()
	n.commands("hook create hangs", "hook set hangs event=exechost_startup alarm=900",
		"hook import hangs application/x-executable default "+sample(t, "misbehave"),
		"hook import hangs application/x-config default "+config)
	began := time.Now()
	n.serve()
	if r := n.send("execjob_end", strings.Replace(job, "execjob_begin", "execjob_end", 1)); r.status != 0 {
		t.Errorf("end: %+v", r)
	}
	must.Equal(t, "phase after the end", n.state("1.srv"), "")
	if took := time.Since(began); took > 12*late {
		t.Errorf("the end of a job took %v, as long as the start of another hook", took)
	}
}
