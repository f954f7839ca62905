package openpbs

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/must"
)

// listed is what qmgr prints for `list hook`: values of more than 80 columns go on in the next
// line.
const listed = `Hook pbs_cgroups
    type = site
    enabled = true
    event = execjob_begin,execjob_epilogue,execjob_end,execjob_launch,exechost_periodic,
	exechost_startup,execjob_attach,execjob_resize,execjob_abort,execjob_postsuspend,
	execjob_preresume
    user = pbsadmin
    alarm = 90
    freq = 120
    order = 100
    debug = false
    fail_action = offline_vnodes

Hook empty
    type = site
    enabled = false
    event = ""
    user = pbsadmin
    alarm = 30
    order = 1
    debug = false
    fail_action = none

`

func TestParseList(t *testing.T) {
	hooks := ParseList(listed)
	want := map[string]*Hook{
		"pbs_cgroups": {Name: "pbs_cgroups", Attributes: map[string]string{"type": "site", "enabled": "true",
			"user": "pbsadmin", "alarm": "90", "freq": "120",
			"order": "100", "debug": "false", "fail_action": "offline_vnodes",
			"event": "execjob_begin,execjob_epilogue,execjob_end,execjob_launch,exechost_periodic," +
				"exechost_startup,execjob_attach,execjob_resize,execjob_abort,execjob_postsuspend,execjob_preresume"}},
		"empty": {Name: "empty", Attributes: map[string]string{"type": "site", "enabled": "false", "event": "",
			"user": "pbsadmin", "alarm": "30", "order": "1",
			"debug": "false", "fail_action": "none"}},
	}
	must.Equal(t, "", want, hooks)
	if hooks := ParseList(""); len(hooks) != 0 {
		t.Errorf("no hooks: %v", hooks)
	}
}

const printed = `#
# Create hooks and set their properties.
#
#
# Create and define hook h
#
create hook h
set hook h type = site
set hook h enabled = true
set hook h event = execjob_begin
set hook h event += execjob_launch
set hook h user = pbsadmin
set hook h fail_action = '""'
import hook h application/x-python base64 -
%simport hook h application/x-config base64 -

`

func TestParsePrint(t *testing.T) {
	// PBS pads each block of 512 bytes by itself.
	h, err := ParsePrint(fmt.Sprintf(printed, "aW1wb3J0IA==\ncGJzCg==\n\n"))
	want := &Hook{Name: "h", Script: []byte("import pbs\n"),
		Attributes: map[string]string{"type": "site", "enabled": "true", "event": "execjob_begin,execjob_launch",
			"user": "pbsadmin", "fail_action": ""}}
	if diff := cmp.Diff(want, h); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	full := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), 383))
	h, err = ParsePrint(fmt.Sprintf(printed, full+"\nimport hook h application/x-config base64 -\n"+full+"\n"))
	if err != nil || len(h.Script) != 383 || len(h.Config) != 383 {
		t.Errorf("lines of 512 characters: error %v, %d bytes and %d", err, len(h.Script), len(h.Config))
	}
	for name, text := range map[string]string{"nothing": "", "not base64": fmt.Sprintf(printed, "?\n\n"),
		"cut off": "create hook h\nimport hook h application/x-python base64 -\naW1wb3J0IA=="} {
		if _, err := ParsePrint(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// PBS reads base64 in pieces of 512 bytes, none of which may be empty or end inside of four
// characters.
func TestEncodeIsWhatPBSReads(t *testing.T) {
	for _, n := range []int{0, 1, 56, 57, 58, 1000, len(Shim())} {
		content := bytes.Repeat([]byte("x\n"), n)[:n]
		text := string(encode(content))
		lines, found := strings.CutSuffix(text, "\n\n")
		if !found && n > 0 {
			t.Fatalf("%d bytes: no empty line at the end", n)
		}
		for _, line := range strings.Split(lines, "\n") {
			if len(line)%4 != 0 || len(line) > 508 || line == "" && n > 0 {
				t.Errorf("%d bytes: line %q", n, line)
			}
		}
		if n == 0 {
			continue
		}
		if back, err := decode(strings.Split(lines, "\n")); err != nil || !bytes.Equal(back, content) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// apply is what PBS makes of a directive (hook_func.c).
func apply(t *testing.T, hooks map[string]*Hook, c Command) {
	t.Helper()
	words := strings.Fields(c.Directive)
	h := hooks[words[2]]
	if (h == nil) != (words[0] == "create") {
		t.Fatalf("%s: is there: %t", c.Directive, h != nil)
	}
	switch words[0] {
	case "create":
		hooks[words[2]] = &Hook{Name: words[2], Attributes: map[string]string{"type": "site", "enabled": "true",
			"event": "", "user": "pbsadmin", "alarm": "30",
			"order": "1", "debug": "false", "fail_action": "none"}}
	case "delete":
		delete(hooks, words[2])
	case "set":
		if words[3] == "fail_action" || words[3] == "freq" {
			if !strings.Contains(h.Attributes["event"], "execjob_begin") {
				t.Fatalf("%s: before the events", c.Directive)
			}
		}
		h.Attributes[words[3]] = strings.Trim(words[5], `"`)
	case "import":
		content, err := decode(strings.Split(strings.TrimSpace(string(c.Input)), "\n"))
		must.NoError(t, err)
		if words[3] == typeScript {
			h.Script = content
		} else {
			h.Config = content
		}
	}
}

// delivered is pbs_cgroups as PBS has it, enabled or not, with an order of the site.
func delivered(enabled string) *Hook {
	return &Hook{Name: Stock, Script: []byte("import json\n"), Config: []byte("{}\n"), Attributes: map[string]string{
		"type": "site", "enabled": enabled, "event": "execjob_begin,exechost_periodic", "user": "pbsadmin",
		"alarm": "90", "freq": "120", "order": "7", "debug": "false", "fail_action": "offline_vnodes"}}
}

// Wherever an installation breaks off, no half hook is called, and doing it again finishes it. What
// uninstall leaves is the stock hook as it was, also where ours has its name.
func TestInstallBreaksOffAnywhere(t *testing.T) {
	for _, name := range []string{Default().Name, Stock} {
		for _, enabled := range []string{"true", "false"} {
			t.Run(name+" "+enabled, func(t *testing.T) {
				r := Default()
				r.Name, r.DisableStock, r.Delivered = name, true, delivered("false")
				breaksOffAnywhere(t, r, enabled)
			})
		}
	}
	r := Default()
	for _, r.Name = range []string{r.Name, Stock} {
		stock := delivered("true")
		if _, err := r.Install(map[string]*Hook{Stock: stock}[r.Name], stock); err == nil {
			t.Errorf("%s: no error without consent", r.Name)
		}
	}
}

func breaksOffAnywhere(t *testing.T, r Registration, enabled string) {
	start := func() map[string]*Hook { return map[string]*Hook{Stock: delivered(enabled)} }
	install := func(hooks map[string]*Hook) []Command {
		t.Helper()
		list, err := r.Install(hooks[r.Name], hooks[Stock])
		must.NoError(t, err)
		return list
	}
	all := install(start())
	for done := range len(all) + 1 {
		hooks := start()
		do := func(list []Command) {
			t.Helper()
			for _, c := range list {
				apply(t, hooks, c)
			}
		}
		do(all[:done])
		// The last only says that it is done. Until the second an enabled stock hook stays that.
		if h := hooks[r.Name]; done < len(all)-1 && done > 1 && h.Enabled() && h.Attributes["event"] != "" {
			t.Errorf("after %d directives it is called", done)
		}
		do(install(hooks))
		if list := install(hooks); len(list) != 0 {
			t.Errorf("after %d directives and once more: %v", done, list)
		}
		h := hooks[r.Name]
		note, ours := Ours(h.Script)
		if want := map[string]string{"true": Stock}[enabled]; !ours || note != want || !h.Enabled() {
			t.Errorf("after %d directives and once more: note %q, want %q, enabled %t", done, note, want, h.Enabled())
		}
		if bytes.Equal(h.Config, r.Delivered.Config) || r.Name != Stock && hooks[Stock].Enabled() {
			t.Errorf("after %d directives and once more: configuration %q, stock hook %v", done, h.Config, hooks[Stock])
		}
		uninstall := func() []Command {
			t.Helper()
			list, err := r.Uninstall(hooks[r.Name], hooks[Stock])
			must.NoError(t, err)
			return list
		}
		out := uninstall()
		do(out[:done%len(out)]) // this breaks off, too
		do(uninstall())
		must.Equal(t, fmt.Sprintf("after %d directives, once more and uninstall", done), start(), hooks)
	}
}

// A site may have deleted the stock hook. PBS enables a hook that was only created, but that is not
// the stock hook.
func TestInstallUnderTheNameOfADeletedStockHookBreaksOff(t *testing.T) {
	r := Default()
	r.Name, r.Delivered = Stock, delivered("false")
	all, err := r.Install(nil, nil)
	must.NoError(t, err)
	for done := range len(all) + 1 {
		hooks := map[string]*Hook{}
		for _, c := range all[:done] {
			apply(t, hooks, c)
		}
		list, err := r.Install(hooks[Stock], hooks[Stock])
		must.NoError(t, err)
		for _, c := range list {
			apply(t, hooks, c)
		}
		h := hooks[Stock]
		if note, ours := Ours(h.Script); !ours || note != "" || !h.Enabled() {
			t.Errorf("after %d directives and once more: note %q, enabled %t", done, note, h.Enabled())
		}
	}
}

// What a site has changed of the stock hook would be lost.
func TestInstallReplacesOnlyTheHookThatPBSDelivers(t *testing.T) {
	r := Default()
	r.Name, r.Delivered = Stock, delivered("false")
	for want, change := range map[string]func(*Hook){
		"has a script of this site":        func(h *Hook) { h.Script = []byte("import pbs\n") },
		"has a configuration of this site": func(h *Hook) { h.Config = []byte("{ }\n") },
		"exists already":                   func(*Hook) { r.Delivered = nil },
	} {
		h := delivered("false")
		change(h)
		if _, err := r.Install(h, h); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		r.Delivered = delivered("false")
	}
}

func TestUninstallDoesNotLoseTheHookThatPBSDelivers(t *testing.T) {
	r := Default()
	r.Name = Stock
	h := delivered("true")
	h.Script = Script(Stock)
	if list, err := r.Uninstall(h, h); err == nil {
		t.Errorf("PBS's hook, which was enabled, is lost by %v", list)
	}
}

func TestCheckRefusesABadRegistration(t *testing.T) {
	for name, change := range map[string]func(*Registration){
		"order":    func(r *Registration) { r.Order = 0 },
		"alarm":    func(r *Registration) { r.Alarm = 1 },
		"freq":     func(r *Registration) { r.Freq = 0 },
		"actions":  func(r *Registration) { r.FailAction = "none,offline_vnodes" },
		"action":   func(r *Registration) { r.FailAction = "pray" },
		"reserved": func(r *Registration) { r.Name = "PBS_x" },
		"blank":    func(r *Registration) { r.Name = "a b" },
		"quote":    func(r *Registration) { r.Name = "a'; id; '" },
	} {
		r := Default()
		if change(&r); r.Check() == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := r.Print("1"); err == nil {
			t.Errorf("%s: printed", name)
		}
		if _, err := r.PrintConfig("1", nil); err == nil {
			t.Errorf("%s: the configuration was printed", name)
		}
	}
	if err := Default().Check(); err != nil {
		t.Error(err)
	}
}

func TestConfigureImportsTheText(t *testing.T) {
	r, ours := Default(), &Hook{Name: "hookhost", Script: Script("")}
	text := []byte("[shim]\nwait = \"9s\"\n")
	hooks := map[string]*Hook{"hookhost": ours}
	for _, tt := range []struct{ text, want string }{{string(text), string(text)}, {"", NoConfig}} {
		list, err := r.Configure(ours, []byte(tt.text))
		if err != nil || len(list) != 1 {
			t.Fatalf("%q: %v, %v", tt.text, list, err)
		}
		apply(t, hooks, list[0])
		if string(ours.Config) != tt.want {
			t.Errorf("%q became %q", tt.text, ours.Config)
		}
		if list, err := r.Configure(ours, []byte(tt.text)); err != nil || len(list) != 0 {
			t.Errorf("%q once more: %v, %v", tt.text, list, err)
		}
	}
	for want, h := range map[string]*Hook{"there is no hook": nil,
		"is not hookhost's": {Script: []byte("import pbs\n")}} {
		if _, err := r.Configure(h, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := r.Configure(ours, make([]byte, MaxConfig+1)); err == nil ||
		!strings.Contains(err.Error(), "65536 bytes") {
		t.Errorf("too long: %v", err)
	}
}

// Nothing of a default registration is left to be edited, and what an administrator reads first
// says what it is for.
func TestPrintReadsWell(t *testing.T) {
	b, err := Default().Print("1.2")
	must.NoError(t, err)
	head := strings.Join(strings.SplitN(string(b), "\n", 11)[:10], "\n")
	for _, want := range []string{"#!/bin/sh", "hookhost 1.2", "as root on the host of the PBS server",
		"needs to be edited"} {
		if !strings.Contains(head, want) {
			t.Errorf("the first ten lines lack %q:\n%s", want, head)
		}
	}
	for _, odd := range []string{"%!", "TODO", "EDIT", "CHANGE_ME"} {
		if strings.Contains(string(b), odd) {
			t.Errorf("it holds %q", odd)
		}
	}
}
