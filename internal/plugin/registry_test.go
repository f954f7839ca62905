package plugin

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

func newRegistry(t *testing.T) *Registry {
	dir := t.TempDir()
	builtIn := Hook{Name: "cgroup", Attributes: DefaultAttributes(), Program: "/usr/libexec/hookhost/hooks/cgroup",
		ConfigData: []byte("x = 1\n")}
	builtIn.Order, builtIn.Alarm, builtIn.OnAlarm = 100, 90, BlameJob
	builtIn.FailAction = FailActionList{FailOfflineVnodes}
	return &Registry{Dir: filepath.Join(dir, "hooks.d"), ProgramDir: filepath.Join(dir, "hooks"),
		BuiltIn: []Hook{builtIn}, AllowUnsafePaths: true}
}

func TestCreateGivesDefaults(t *testing.T) {
	r := newRegistry(t)
	if err := r.Create("site-hook_1.x"); err != nil {
		t.Fatal(err)
	}
	h, err := r.Get("site-hook_1.x")
	if err != nil {
		t.Fatal(err)
	}
	if time.Since(h.Created) > time.Minute {
		t.Errorf("created %v", h.Created)
	}
	h.Created = time.Time{}
	want := Hook{Name: "site-hook_1.x",
		Attributes: Attributes{Enabled: true, Order: 1, Alarm: 30, Freq: 120, Type: "site", User: "pbsadmin"}}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if err := r.Create("site-hook_1.x"); !errors.Is(err, errHookExists) {
		t.Errorf("second create: %v", err)
	}
	if err := r.Create("cgroup"); !errors.Is(err, errHookExists) {
		t.Errorf("create a built-in: %v", err)
	}
}

func TestNamesOfHooksFollowPBS(t *testing.T) {
	for _, name := range []string{"", "1x", ".x", "a/b", "a b", "PBSx", "PBS_cgroups", strings.Repeat("a", 65), "ä"} {
		if err := CheckName(name); err == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
	for _, name := range []string{"x", "pbs", "A.b-c_9", strings.Repeat("a", 64)} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSetChecksEachAttribute(t *testing.T) {
	tests := []struct {
		name string
		set  []string
		want func(*Attributes) // nil: refused
		err  string
	}{
		{name: "numbers", set: []string{"order=5", " alarm = 3 ", "freq=10"},
			want: func(a *Attributes) { a.Order, a.Alarm, a.Freq = 5, 3, 10 }},
		{name: "booleans", set: []string{"enabled=f", "debug=TRUE"},
			want: func(a *Attributes) { a.Enabled, a.Debug = false, true }},
		{name: "events", set: []string{`event="execjob_begin, execjob_end"`},
			want: func(a *Attributes) { a.Event = EventList{"execjob_begin", "execjob_end"} }},
		{name: "all events", set: []string{"event=execjob_begin", "event="}, want: func(*Attributes) {}},
		{name: "fail_action", set: []string{"fail_action=none", "fail_action=offline_vnodes"},
			want: func(a *Attributes) { a.FailAction = FailActionList{"offline_vnodes"} }},
		{name: "what errors count against", set: []string{"on_node_error=node", "on_alarm=job", "on_defect=nothing",
			"on_node_error="}, want: func(a *Attributes) { a.OnAlarm, a.OnDefect = BlameJob, BlameNothing }},

		{name: "order of a site's hook", set: []string{"order=1001"},
			err: "hook h: order = 1001: want 1 to 1000 for type site"},
		{name: "order 0", set: []string{"order=0"}, err: "hook h: order = 0: want 1 to 1000 for type site"},
		{name: "alarm 0", set: []string{"alarm=0"}, err: "hook h: alarm = 0: want a number of seconds above 0"},
		{name: "freq -1", set: []string{"freq=-1"}, err: "hook h: freq = -1: want a number of seconds above 0"},
		{name: "no number", set: []string{"order=x"}, err: "hook h: order = x: want a whole number"},
		{name: "no boolean", set: []string{"enabled=maybe"}, err: "hook h: enabled = maybe: want true or false"},
		{name: "unknown attribute", set: []string{"colour=red"},
			err: `hook h: attribute "colour": not one of type, enabled, event, order, alarm, fail_action, on_node_error, ` +
				"on_alarm, on_defect, freq, user, debug"},
		{name: "blame", set: []string{"on_alarm=nodes"}, err: `hook h: on_alarm = "nodes": want node, job or nothing`},
		{name: "unknown event", set: []string{"event=queuejob"},
			err: `hook h: event = queuejob: event "queuejob": unknown name`},
		{name: "event twice", set: []string{"event=execjob_end,execjob_end"},
			err: "hook h: event = execjob_end,execjob_end: execjob_end comes twice"},
		{name: "plus", set: []string{"event+=execjob_end"},
			err: `hook h: attribute "event+": unknown: did you mean event?`},
		{name: "none with another", set: []string{"fail_action=none,offline_vnodes"},
			err: "hook h: fail_action = none,offline_vnodes: none stands alone"},
		{name: "offline_vnodes without its events", set: []string{"event=execjob_end", "fail_action=offline_vnodes"},
			err: "hook h: fail_action = offline_vnodes: event must name one of " +
				"execjob_begin,exechost_startup,execjob_prologue"},
		{name: "clear without startup", set: []string{"event=execjob_begin", "fail_action=clear_vnodes_upon_recovery"},
			err: "hook h: fail_action = clear_vnodes_upon_recovery: event must name one of exechost_startup"},
		{name: "another user", set: []string{"user=nobody"}, err: `hook h: user = "nobody": want pbsadmin`},
		{name: "the job's owner", set: []string{"event=execjob_prologue", "user=pbsuser"},
			err: "hook h: user = pbsuser: hooks of hookhost run as root; register the hook with PBS's own qmgr, " +
				"which runs it as the job's owner"},
		{name: "type", set: []string{"type=pbs"}, err: "hook h: type = pbs: a hook of type site stays one"},
		{name: "no assignment", set: []string{"enabled"}, err: `hook h: "enabled": want ATTRIBUTE=VALUE`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRegistry(t)
			if err := r.Create("h"); err != nil {
				t.Fatal(err)
			}
			err := r.Set("h", tt.set...)
			want := DefaultAttributes()
			if tt.want != nil {
				tt.want(&want)
			}
			switch {
			case tt.err == "" && err != nil, tt.err != "" && (err == nil || err.Error() != tt.err):
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			h, err := r.Get("h")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, h.Attributes); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// A built-in's file holds what differs from it, so that a later release can bring other defaults.
func TestBuiltIn(t *testing.T) {
	r := newRegistry(t)
	if err := r.Set("cgroup", "order=1500"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(r.Dir, "cgroup.toml"))
	if err != nil || string(b) != "order = 1500\n" {
		t.Errorf("file %q, %v", b, err)
	}
	h, err := r.Get("cgroup")
	if err != nil || h.Order != 1500 || h.Alarm != 90 || !h.BuiltIn || h.Type != "pbs" {
		t.Errorf("%+v, %v", h, err)
	}
	if err := r.Delete("cgroup"); err == nil || !strings.Contains(err.Error(), "remove "+r.Dir+"/cgroup.toml") {
		t.Errorf("delete of a built-in: %v, want how its defaults are restored", err)
	}
	if err := r.Import("cgroup", ContentConfig, strings.NewReader("y")); err == nil {
		t.Error("a built-in's configuration was replaced")
	}
}

func TestHookThatIsOffIsMissingWithTheRemedy(t *testing.T) {
	r := newRegistry(t)
	r.Off = []string{"container"}
	for name, want := range map[string]string{
		"container": "hook container: no such hook: it comes with hookhost and is off: " +
			"turn it on in [container] of the configuration",
		"contain": "hook contain: no such hook",
	} {
		if err := r.Set(name, "order=7"); err == nil || err.Error() != want {
			t.Errorf("set %s: %v, want %s", name, err, want)
		}
	}
}

// What was set while it was on may be invalid for a site's hook, and a change would make its file
// that of one.
func TestFileOfAHookThatIsOffHasNoEffect(t *testing.T) {
	r := newRegistry(t)
	must.NoError(t, r.Set("cgroup", "order=1500"))
	r.BuiltIn, r.Off = nil, []string{"cgroup"}
	hooks, err := r.List()
	must.NoError(t, err)
	must.Equal(t, "hooks", 0, len(hooks))
	const remedy = "it comes with hookhost and is off: turn it on in [cgroup] of the configuration"
	for want, err := range map[string]error{
		"hook cgroup: no such hook: " + remedy:            r.Set("cgroup", "order=7"),
		"hook cgroup: the hook exists already: " + remedy: r.Create("cgroup"),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	const sites = "type = 'site'\norder = 7\n" // as of a site's hook with that name
	must.NoError(t, os.WriteFile(filepath.Join(r.Dir, "cgroup.toml"), []byte(sites), 0o644))
	h, err := r.Get("cgroup")
	must.NoError(t, err)
	must.Equal(t, "order", 7, h.Order)
}

// An attribute that is set to nothing has its default again, which fail_action does not change.
func TestBuiltInHasItsDefaultForWhatIsSetToNothing(t *testing.T) {
	r := newRegistry(t)
	must.NoError(t, r.Set("cgroup", "on_alarm=nothing", "order=7"), r.Set("cgroup", "on_alarm="))
	file := filepath.Join(r.Dir, "cgroup.toml")
	b, err := os.ReadFile(file)
	must.NoError(t, err)
	must.Equal(t, "the file", "order = 7\n", string(b))
	must.NoError(t, os.WriteFile(file, []byte("on_alarm = ''\n"), 0o644))
	h, err := r.Get("cgroup")
	must.NoError(t, err)
	must.Equal(t, "of a file that sets it to nothing", BlameJob, h.Blames(hostapi.KindTimeout))
}

func TestImportKeepsCopiesAndDeleteRemovesThem(t *testing.T) {
	r := newRegistry(t)
	if err := r.Import("h", ContentProgram, strings.NewReader("#!/bin/sh\n")); !errors.Is(err, errNoHook) {
		t.Errorf("import without a hook: %v", err)
	}
	if err := r.Create("h"); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"deny", "misbehave"} {
		text, err := os.ReadFile(filepath.Join(plugintest.Programs(), program))
		if err != nil {
			t.Fatal(err)
		}
		imported := map[string]string{ContentProgram: string(text), ContentConfig: "# " + program}
		for contentType, content := range imported {
			if err := r.Import("h", contentType, strings.NewReader(content)); err != nil {
				t.Fatal(err)
			}
			h, err := r.Get("h")
			must.NoError(t, err)
			path := map[string]string{ContentProgram: h.Program, ContentConfig: h.Config}[contentType]
			if b, err := os.ReadFile(path); err != nil || string(b) != content {
				t.Errorf("the copy: %q, %v", b, err)
			}
		}
	}
	h, err := r.Get("h")
	if err != nil {
		t.Fatal(err)
	}
	if f, err := r.paths().openSummed(h.Program, h.SHA256); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
	if files, _ := filepath.Glob(filepath.Join(r.ProgramDir, "*")); len(files) != 2 {
		t.Errorf("copies: %v, want the last two", files)
	}
	for name, refused := range map[string]struct{ contentType, content string }{
		"no program":    {ContentProgram, "hello"},
		"empty":         {ContentProgram, ""},
		"too long":      {ContentConfig, strings.Repeat("x", maxConfig+1)},
		"other content": {"application/x-python", "pass"},
	} {
		if err := r.Import("h", refused.contentType, strings.NewReader(refused.content)); err == nil {
			t.Errorf("%s: imported", name)
		}
	}
	if err := r.Delete("h"); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(r.Dir), "*", "[^.]*")); len(left) != 0 {
		t.Errorf("left after delete: %v", left)
	}
	if err := r.Delete("h"); !errors.Is(err, errNoHook) {
		t.Errorf("second delete: %v", err)
	}
}

func TestListInOrder(t *testing.T) {
	r := newRegistry(t)
	for _, name := range []string{"z", "y", "x"} {
		if err := r.Create(name); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond) // creation order needs different times
	}
	if err := r.Set("y", "order=200"); err != nil {
		t.Fatal(err)
	}
	hooks, err := r.List()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, h := range hooks {
		names = append(names, h.Name)
	}
	if diff := cmp.Diff([]string{"z", "x", "cgroup", "y"}, names); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	// A broken file is told, and does not hide the others.
	if err := os.WriteFile(filepath.Join(r.Dir, "x.toml"), []byte("order = 1\ncolour = 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if hooks, err = r.List(); err != nil || len(hooks) != 4 {
		t.Fatalf("%d hooks, %v, want 4", len(hooks), err)
	}
	for _, h := range hooks {
		if want := map[string]string{"x": `line 2: unknown key "colour"`}[h.Name]; h.Fault != want {
			t.Errorf("hook %s: fault %q, want %q", h.Name, h.Fault, want)
		}
	}
	if _, err := r.Get("x"); err == nil || err.Error() != `hook x: line 2: unknown key "colour"` {
		t.Errorf("get: %v", err)
	}
	if err := r.Delete("x"); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func TestHookFile(t *testing.T) {
	const sha = "sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\"\n"
	tests := []struct{ name, text, err string }{
		{"empty", "", ""},
		{"by hand", "order = 7\nprogram = \"/usr/local/sbin/h\"\n" + sha, ""},
		{"no sum", "program = \"/usr/local/sbin/h\"\n",
			`sha256 = "": want the program's checksum, 64 digits of 0-9a-f`},
		{"relative", "program = \"h\"\n" + sha, `program = "h": want an absolute path in its shortest form`},
		{"dots", "config = \"/etc/../h\"\n", `config = "/etc/../h": want an absolute path in its shortest form`},
		{"wrong type", "order = \"x\"\n", "line 1: order: cannot decode"},
		{"built-in's type", "type = \"pbs\"\n", `type = "pbs": want site`},
		{"twice", "order = 1\norder = 2\n", "line 2"},
		{"bad event", "event = \"x\"\n", "line 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := Hook{Name: "h", Attributes: DefaultAttributes()}
			err := decodeHook([]byte(tt.text), &h)
			if tt.err == "" && err != nil || tt.err != "" &&
				(err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

func FuzzHookFile(f *testing.F) {
	f.Add([]byte("order = 7\nevent = \"execjob_begin,execjob_end\"\nfail_action = \"offline_vnodes\"\ncreated = " +
		"2026-01-02T03:04:05Z\n"))
	f.Add([]byte("enabled = false\nuser = \"pbsuser\"\nevent = \"execjob_prologue\"\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h := Hook{Name: "h", Attributes: DefaultAttributes()}
		if decodeHook(b, &h) != nil {
			return
		}
		text, err := (&Registry{}).encode(h)
		if err != nil {
			t.Fatal(err)
		}
		again := Hook{Name: "h", Attributes: DefaultAttributes()}
		if err := decodeHook(text, &again); err != nil {
			t.Fatalf("%v in what was written:\n%s", err, text)
		}
		text2, err := (&Registry{}).encode(again)
		if err != nil || !bytes.Equal(text, text2) {
			t.Fatalf("%v\n%s\n%s", err, text, text2)
		}
	})
}

func TestGetsFollowsTheEventList(t *testing.T) {
	a := DefaultAttributes()
	if !a.Gets(hostapi.EventAttach) {
		t.Error("without a list every event is the hook's")
	}
	a.Event = EventList{hostapi.EventBegin}
	if a.Gets(hostapi.EventAttach) || !a.Gets(hostapi.EventBegin) {
		t.Error("with a list only those in it are")
	}
	a.Enabled = false
	if a.Gets(hostapi.EventBegin) {
		t.Error("a disabled hook gets nothing")
	}
}
