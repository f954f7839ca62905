package openpbs

import (
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// usedIn are the resources_used among changes, "JOB NAME=VALUE" each, and the log lines.
func usedIn(c *Changes) (used, log []string) {
	for _, change := range c.List {
		switch change.Verb {
		case verbUsed:
			used = append(used, strings.TrimSpace(change.Fields[0]+" "+change.Fields[1]+"="+change.Fields[3]))
		case verbLog:
			log = append(log, change.Fields[1])
		}
	}
	return used, log
}

func TestResourceThatTheServerDoesNotKnowIsLeftOut(t *testing.T) {
	e := &Event{Request: &hostapi.Request{Event: hostapi.EventEpilogue, Node: "n1", Job: &hostapi.Job{ID: "1.s"}}}
	out := &hostapi.Outcome{ResourcesUsed: hostapi.Resources{"mem": "1kb", "hpmem": "2kb"}, Diag: "x"}
	for name, tt := range map[string]struct {
		resourcedef string
		used        []string
		names       []string // in the log
	}{
		"all": {"hpmem type=size flag=hm\ndiag_messages type=string\n",
			[]string{`diag_messages={"n1":"x"}`, "hpmem=2kb", "mem=1kb"}, nil},
		"one":     {"hpmem type=size flag=hm\n", []string{"hpmem=2kb", "mem=1kb"}, []string{"diag_messages"}},
		"none":    {"", []string{"mem=1kb"}, []string{"diag_messages", "hpmem"}},
		"comment": {"#diag_messages type=string\n", []string{"mem=1kb"}, []string{"diag_messages", "hpmem"}},
	} {
		t.Run(name, func(t *testing.T) {
			used, log := usedIn(e.Changes(out, ParseResourcedef([]byte(tt.resourcedef)), Offlining{}))
			must.Equal(t, "", tt.used, used)
			for _, name := range []string{"diag_messages", "hpmem"} {
				named := strings.Contains(strings.Join(log, ""), "resources_used."+name+", ")
				if named != slices.Contains(tt.names, name) {
					t.Errorf("log %q: want %q", log, tt.names)
				}
			}
		})
	}
}

func TestMotherSuperiorSetsWhatMoMUnitesWithSisters(t *testing.T) {
	const one, two = "n1:15002/0+n1:15002/1", "n1:15002/0+n2:15002/0"
	set, unset := []string{"diag_messages={}", "host_usage={}"}, []string(nil)
	for name, tt := range map[string]struct {
		event    hostapi.Event
		hosts    string
		superior bool
		custom   Custom
		diag     string
		want     []string
	}{
		"epilogue": {hostapi.EventEpilogue, two, true, allKnown, "", set},
		"with an own message": {hostapi.EventEpilogue, two, true, allKnown, "x",
			[]string{`diag_messages={"n1":"x"}`, "host_usage={}"}},
		"of one host":    {hostapi.EventEpilogue, one, true, allKnown, "", unset},
		"on a sister":    {hostapi.EventEpilogue, two, false, allKnown, "", unset},
		"before it runs": {hostapi.EventBegin, two, true, allKnown, "", unset},
		"unknown":        {hostapi.EventEpilogue, two, true, nil, "", unset},
		"one unknown":    {hostapi.EventEpilogue, two, true, Custom{HostUsage: true}, "", set[1:]},
		"hosts not said": {hostapi.EventEpilogue, "", true, allKnown, "", unset},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Event{Request: &hostapi.Request{Event: tt.event, Node: "n1",
				Job: &hostapi.Job{ID: "1.s", ExecHost2: tt.hosts, MotherSuperior: tt.superior}}}
			used, log := usedIn(e.Changes(&hostapi.Outcome{Diag: tt.diag}, tt.custom, Offlining{}))
			must.Equal(t, "resources_used", tt.want, used)
			if tt.diag == "" {
				must.Equal(t, "log", []string(nil), log)
			}
		})
	}

	e := &Event{Request: &hostapi.Request{Event: hostapi.EventPeriodic, Node: "n1", JobList: map[string]*hostapi.Job{
		"1.s": {ID: "1.s", ExecHost2: two, MotherSuperior: true}, "2.s": {ID: "2.s", ExecHost2: two},
		"3.s": {ID: "3.s", ExecHost2: one, MotherSuperior: true},
		"4.s": {ID: "4.s", ExecHost2: two, MotherSuperior: true},
	}}}
	mem := &hostapi.JobUpdate{ResourcesUsed: hostapi.Resources{"mem": "1kb"}}
	used, _ := usedIn(e.Changes(&hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{"4.s": mem}}, allKnown,
		Offlining{}))
	must.Equal(t, "periodic", []string{"1.s diag_messages={}", "1.s host_usage={}",
		"4.s diag_messages={}", "4.s host_usage={}", "4.s mem=1kb"}, used)
}

func TestHostUsageIsReportedWithUsage(t *testing.T) {
	const mem, entry = "mem=1kb", `host_usage={"n1":{"cput":1.5,"mem":1}}`
	u := &hostapi.HostUsage{CPUTSeconds: ptr(1.5), MemBytes: ptr(int64(1024))}
	used := hostapi.Resources{"mem": "1kb"}
	for name, tt := range map[string]struct {
		event hostapi.Event
		out   hostapi.Outcome
		want  []string
	}{
		"epilogue": {hostapi.EventEpilogue, hostapi.Outcome{ResourcesUsed: used, Usage: u},
			[]string{entry, mem}},
		"before it ran":   {hostapi.EventBegin, hostapi.Outcome{ResourcesUsed: used, Usage: u}, []string{mem}},
		"after its usage": {hostapi.EventEnd, hostapi.Outcome{ResourcesUsed: used, Usage: u}, []string{mem}},
		"not reported":    {hostapi.EventEpilogue, hostapi.Outcome{Usage: u}, nil},
		"not measured": {hostapi.EventEpilogue, hostapi.Outcome{ResourcesUsed: used, Usage: &hostapi.HostUsage{}},
			[]string{mem}},
		"of a site's hook": {hostapi.EventEpilogue, hostapi.Outcome{Usage: u,
			ResourcesUsed: hostapi.Resources{"host_usage": "{}"}}, []string{"host_usage={}"}},
		"periodic": {hostapi.EventPeriodic, hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{
			"1.s": {ResourcesUsed: used, Usage: u}}}, []string{"1.s " + entry, "1.s " + mem}},
	} {
		t.Run(name, func(t *testing.T) {
			job := &hostapi.Job{ID: "1.s"}
			e := &Event{Request: &hostapi.Request{Event: tt.event, Node: "n1", Job: job}}
			if tt.event == hostapi.EventPeriodic {
				e.Request.Job, e.Request.JobList = nil, map[string]*hostapi.Job{job.ID: job}
			}
			used, _ := usedIn(e.Changes(&tt.out, allKnown, Offlining{}))
			must.Equal(t, "", tt.want, used)
		})
	}
}

func TestWhatWentWrongIsALineOfMoMsLogUntilMoMKnowsIt(t *testing.T) {
	const known = `{"n1":"x"}`
	none := []Change(nil)
	line := []Change{{Verb: verbLog, Fields: []string{"job 1.s", "hookhost: x"}}}
	for name, tt := range map[string]struct {
		event  hostapi.Event
		had    string
		custom Custom
		want   []Change
	}{
		"periodic":                   {hostapi.EventPeriodic, "", allKnown, line},
		"another thing":              {hostapi.EventPeriodic, `{"n1":"w"}`, allKnown, line},
		"periodic, known":            {hostapi.EventPeriodic, known, allKnown, none},
		"periodic, without a name":   {hostapi.EventPeriodic, "", nil, none},
		"epilogue":                   {hostapi.EventEpilogue, "", allKnown, line},
		"epilogue, known":            {hostapi.EventEpilogue, known, allKnown, none},
		"epilogue, without a name":   {hostapi.EventEpilogue, "", nil, line},
		"an event that takes no use": {hostapi.EventAttach, "", allKnown, none},
	} {
		t.Run(name, func(t *testing.T) {
			job := &hostapi.Job{ID: "1.s", ResourcesUsed: hostapi.Resources{DiagMessages: tt.had}}
			e := &Event{Request: &hostapi.Request{Event: tt.event, Node: "n1"}}
			out := &hostapi.Outcome{Diag: "x"}
			if e.Request.Job = job; tt.event == hostapi.EventPeriodic {
				e.Request.Job, e.Request.JobList = nil, map[string]*hostapi.Job{job.ID: job}
				out = &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{job.ID: {Diag: "x"}}}
			}
			c := e.Changes(out, tt.custom, Offlining{})
			lines := slices.DeleteFunc(slices.Clone(c.List), func(c Change) bool {
				return c.Verb != verbLog || c.Fields[0] == "debug"
			})
			must.Equal(t, "lines", tt.want, append(none, lines...))
			if _, written := e.Output(c); len(tt.want) > 0 && written {
				t.Error("the stand-in, which cannot write to MoM's log, does not leave it to the shim")
			}
		})
	}
}

func TestServerIsGivenTheResourcesAtStartupThatItDoesNotKnow(t *testing.T) {
	e := &Event{Request: &hostapi.Request{Event: hostapi.EventStartup, Node: "n1"}}
	give := Change{Verb: verbVnode, Fields: []string{"n1", "resources_available", "diag_messages", "string", ""}}
	and := Change{Verb: verbVnode, Fields: []string{"n1", "resources_available", "host_usage", "string", ""}}
	mem := Change{Verb: verbVnode, Fields: []string{"n1", "resources_available", "mem", "size", "1kb"}}
	accept := Change{Verb: verbAccept}
	vnodes := map[string]*hostapi.Vnode{"n1": {ResourcesAvailable: hostapi.Resources{"mem": "1kb"}}}
	for name, tt := range map[string]struct {
		vnodes map[string]*hostapi.Vnode
		custom Custom
		want   []Change
	}{
		"no vnodes":    {nil, nil, []Change{give, and, accept}},
		"vnodes":       {vnodes, nil, []Change{give, and, mem, accept}},
		"one is known": {vnodes, Custom{DiagMessages: true}, []Change{and, mem, accept}},
		"known":        {vnodes, allKnown, []Change{mem, accept}},
		"nothing told": {nil, allKnown, []Change{accept}},
	} {
		got := e.Changes(&hostapi.Outcome{Vnodes: tt.vnodes}, tt.custom, Offlining{})
		must.Equal(t, name, &Changes{List: tt.want}, got)
	}
	if len(vnodes["n1"].ResourcesAvailable) != 1 {
		t.Errorf("the outcome was changed: %v", vnodes["n1"])
	}
}
