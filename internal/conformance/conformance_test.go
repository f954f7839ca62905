package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

func TestMain(m *testing.M) {
	status := m.Run()
	plugintest.RemovePrograms()
	os.Exit(status)
}

// report tests a program of plugintest.
func report(t *testing.T, program, config string, alarm time.Duration) *Report {
	t.Helper()
	o := Options{Alarm: alarm, Node: "n1", Dir: shortDir(t)}
	o.Program = filepath.Join(plugintest.Programs(), program)
	if config != "" {
		o.Config = []byte(config)
	}
	r, err := Run(t.Context(), o)
	must.NoError(t, err)
	return r
}

// shortDir returns a directory for sockets.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "hh")
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// finding fails with the whole report unless a check has that result and a text that matches.
func (r *Report) finding(result Result, check, text string) error {
	c := r.check(check)
	found := strings.Join(slices.Concat(c.Found, c.Notes), "\n")
	if c.Result == result && regexp.MustCompile(text).MatchString(found) {
		return nil
	}
	all, err := json.MarshalIndent(r, "", " ")
	return fmt.Errorf("want %s of %s with %q: %s %v", result, check, text, all, err)
}

// fault is a mode of misbehave, and what a report says about it.
type fault struct {
	mode   string // of the configuration; of the program's file if start is set
	start  bool
	config string // further keys
	result Result
	check  string
	text   string // a regular expression
}

// Each fault that misbehave knows is named, and what a hook may do is not.
func TestEachFaultOfAHookIsNamed(t *testing.T) {
	const begin = "execjob_begin"
	tests := []fault{
		{mode: "print-early", start: true, result: Fault, check: start,
			text: `it printed "hello from misbehave" before the handshake`},
		{mode: "wrong-version", start: true, result: Fault, check: start, text: "version.*99"},
		{mode: "exit-at-start", start: true, result: Fault, check: start,
			text: "ended before it was ready: exit status 3"},
		{mode: "slow-start", start: true, result: Fault, check: start, text: "not ready after 1s"},
		{mode: "slow-start", start: true, result: Fault, check: byHand, text: "still runs after 1s"},
		{mode: "nonsense", start: true, result: Fault, check: begin,
			text: "outcome of execjob_begin: invalid character"},
		{mode: "no-events", start: true, result: Fault, check: start, text: "handles no event"},
		{mode: "no-lifeline", start: true, result: Fault, check: lifeline, text: "still runs 2s after"},

		{mode: "", result: OK, check: begin},
		{mode: "exit", result: Fault, check: begin, text: "crashed twice: exit status 4"},
		{mode: "kill", result: Fault, check: begin, text: "crashed twice: signal: killed"},
		{mode: "panic", result: Fault, check: begin, text: "kind internal: panic in execjob_begin: misbehave: "},
		{mode: "panic-aside", result: Fault, check: begin, text: "crashed twice: (panic: misbehave:|exit status 2)"},
		{mode: "hang", result: Fault, check: begin, text: "kind timeout: alarm after 1s"},
		{mode: "wait", result: Fault, check: begin, text: "kind timeout: alarm after 1s"},
		{mode: "long-line", result: OK, check: "log", text: "a line of 100000 bytes: hookhost cuts"},
		{mode: "print", result: OK, check: begin},
		{mode: "log", result: OK, check: begin},
		{mode: "reject", config: "value = 'no'", result: Refused, check: begin, text: "^rejected: no$"},
		{mode: "rerun", config: "value = 'no'", result: Refused, check: begin, text: "^rejected: no$"},
		{mode: "error", config: "value = 'busy'", result: Refused, check: begin, text: "^error of kind busy: "},
		{mode: "error", config: "value = 'internal'", result: Fault, check: begin, text: "^error of kind internal: "},
		{mode: "partial", result: Refused, check: begin, text: "^error of kind node: counted only in part"},
		{mode: "env", config: "value = 'A=b'", result: Fault, check: begin,
			text: "set_env: execjob_begin does not take it"},
		{mode: "env", config: "value = 'A=b'\nevent = 'execjob_launch'", result: OK, check: "execjob_launch"},
		{mode: "attach-env", config: "value = 'A'", result: OK, check: begin},
		{mode: "say", config: `value = '{"set_env": {"A": "b"}}'`, result: Fault, check: begin, text: "set_env"},
		{mode: "reject", result: Refused, check: begin, text: "reject without a message: nobody learns why"},
		{mode: "say", config: `value = '{"notes": [` + strings.Repeat(`"",`, 256) + `""]}'`,
			result: OK, check: begin, text: "^257 notes: a job's record keeps 256$"},
		{mode: "used", config: "value = 'mem=1kb'", result: OK, check: begin},
		{mode: "state", result: OK, check: begin},
		{mode: "again", config: "value = '1h'", result: OK, check: begin},
		{mode: "elapsed", config: "value = '1h'", result: OK, check: begin},
		{mode: "misfit", result: Fault, check: begin, text: `job_action: "explode" is none of`},
		{mode: "huge", config: "value = '5000'", result: Fault, check: begin, text: "message: a line of 5000 bytes"},
		{mode: "child", result: OK, check: stop, text: "still runs after the last event"},
		{mode: "mkdir", result: Fault, check: begin, text: "^called again: .*file exists"},
		{mode: "forget", config: "event = 'execjob_launch'", result: Fault, check: "execjob_launch",
			text: "^killed during the event, started and called again: .*not known"},
		{mode: "configure", result: Fault, check: start, text: "configuration refused"},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			must.BesideOthers(t)
			program, config, alarm := "misbehave", "", time.Minute
			switch {
			case tt.start:
				program = tt.mode
			case tt.mode == "child" || tt.mode == "mkdir":
				config = fmt.Sprintf("mode = %q\nalone = true\nvalue = %q", tt.mode, filepath.Join(t.TempDir(), "file"))
			case tt.mode == "" || tt.mode == "forget":
				config = fmt.Sprintf("mode = %q\n%s", tt.mode, tt.config)
			default:
				config = fmt.Sprintf("mode = %q\nalone = true\n%s", tt.mode, tt.config)
			}
			if strings.Contains(tt.text, "1s") {
				alarm = time.Second
			}
			r := report(t, program, config, alarm)
			if err := r.finding(tt.result, tt.check, tt.text); err != nil {
				t.Error(err)
			}
			ok := tt.result == OK
			if r.Passed != ok {
				t.Errorf("passed: %t, with %d faults", r.Passed, r.Count(Fault))
			}
		})
	}
	t.Run("none is forgotten", func(t *testing.T) {
		r := report(t, "misbehave", "mode = 'unknown'", time.Minute)
		_, modes, _ := strings.Cut(strings.Join(r.check(start).Found, " "), "none of")
		for _, mode := range strings.Fields(modes) {
			if !slices.ContainsFunc(tests, func(tt fault) bool { return tt.mode == mode }) {
				t.Errorf("mode %s of misbehave is not in the table", mode)
			}
		}
	})
}

// A hook that accepts everything passes. It leaves neither a process nor a file.
func TestHookThatWorksPasses(t *testing.T) {
	dir := shortDir(t)
	deny := Hook{Program: filepath.Join(plugintest.Programs(), "deny")}
	r, err := Run(t.Context(), Options{Hook: deny, Alarm: 10 * time.Second, Node: "n1", Dir: dir})
	must.NoError(t, err)
	if !r.Passed || r.Count(OK) != len(r.Checks) {
		t.Error(r.finding(OK, "", ""))
	}
	if children := plugintest.Children(t); len(children) > 0 {
		t.Errorf("children left: %v", children)
	}
	if sockets, err := exec.Command("find", dir, "-type", "s").Output(); err != nil || len(sockets) > 0 {
		t.Errorf("sockets left: %s, %v", sockets, err)
	}
}

// The kernel's error reads as if the script did not exist.
func TestMissingInterpreterIsNamed(t *testing.T) {
	must.BesideOthers(t)
	program := filepath.Join(t.TempDir(), "hook")
	must.NoError(t, os.WriteFile(program, []byte("#!/usr/bin/python3\r\n"), 0o755))
	r, err := Run(t.Context(), Options{Hook: Hook{Program: program}, Alarm: time.Second, Node: "n1", Dir: shortDir(t)})
	must.NoError(t, err)
	must.NoError(t, r.finding(Fault, start, `its interpreter "/usr/bin/python3\\r" does not exist`))
}

func TestMisspeltKeyOfAnAnswerIsNoted(t *testing.T) {
	must.BesideOthers(t)
	must.NoError(t, report(t, "misspelt", "", time.Minute).finding(OK, "execjob_begin",
		`unknown key "rejct": ignored; did you mean reject\?\nmessage without reject: the event is accepted`))
}

// A program that waits instead of ending is killed with the programs that it has started.
func TestProgramStartedByHandLeavesNoProcess(t *testing.T) {
	program, pid := filepath.Join(t.TempDir(), "waits"), filepath.Join(t.TempDir(), "pid")
	text := fmt.Sprintf("#!/bin/sh\nsleep 1567 & echo $! >>%s\nwait\n", pid)
	must.NoError(t, os.WriteFile(program, []byte(text), 0o755))
	r, err := Run(t.Context(), Options{Hook: Hook{Program: program}, Alarm: time.Second, Node: "n1", Dir: shortDir(t)})
	must.NoError(t, err)
	must.NoError(t, r.finding(Fault, byHand, "still runs after 1s"))
	for _, line := range plugintest.Lines(t, pid) {
		plugintest.Eventually(t, "process "+line+" is gone", func() bool {
			status, err := os.ReadFile("/proc/" + line + "/stat")
			return err != nil || strings.Contains(string(status), ") Z ")
		})
	}
}

// A key of --job that no Job has would leave the hook untested.
func TestJobWithAnUnknownKeyIsRefused(t *testing.T) {
	must.NoError(t, CheckJob([]byte(`{"resource_list": {"x": "1"}, "owner": {"uid": 1}}`)))
	for text, want := range map[string]string{
		`{"resource_lst": {}}`:         `unknown key "resource_lst"; did you mean resource_list?`,
		`{"owner": {"usr": "x"}}`:      `unknown key "owner.usr"; did you mean user?`,
		`{"of_a_later_version": true}`: `unknown key "of_a_later_version"`,
	} {
		if err := CheckJob([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// docs/hooks-any-language.md lists the environment of a program.
func TestPageListsTheEnvironmentOfAProgram(t *testing.T) {
	page, err := os.ReadFile("../../docs/hooks-any-language.md")
	must.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "\n## The start\n")
	table, _, _ := strings.Cut(section, "\n1. ")
	listed := map[string]bool{}
	for line := range strings.Lines(table) {
		names, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, m := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(names, -1) {
			listed[m[1]] = true
		}
	}
	program := filepath.Join(t.TempDir(), "environ")
	must.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\ntr '\\0' '\\n' </proc/$$/environ >&2; exit 1\n"), 0o755))
	r, err := Run(t.Context(), Options{Hook: Hook{Program: program}, Alarm: time.Minute, Node: "n1", Dir: shortDir(t)})
	must.NoError(t, err)
	set := map[string]bool{}
	for _, m := range regexp.MustCompile(`([A-Z_]+)=`).FindAllStringSubmatch(strings.Join(r.Log, "\n"), -1) {
		set[m[1]] = true
	}
	must.Equal(t, "variables (-program +page)", set, listed)
}
