package plugin

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// A configuration that the hook's program does not take is refused at import, with the line, and
// what was there stays.
func TestImportChecksConfig(t *testing.T) {
	r := registryOf(t)
	register(t, r, "h", "misbehave", "")
	good := "mode = \"reject\"\nvalue = \"no\"\n"
	for _, tt := range []struct{ name, config, err string }{
		{"taken", good, ""},
		{"unknown key", "mode = \"reject\"\ncolour = \"red\"\n",
			"hook h: import application/x-config: its program refuses it: configuration of hook h: line 2: colour: " +
				"unknown key"},
		{"no TOML", "mode = \n", "line 1"},
		{"JSON", `{"mode": 7}`, "line 1"},
		{"a wrong value", "mode = \"dance\"\n", `mode "dance": none of`},
		{"refused by its constructor", "mode = \"configure\"\nvalue = \"no such thing here\"\n",
			"configuration refused: no such thing here"},
	} {
		err := r.Import("h", ContentConfig, strings.NewReader(tt.config))
		if tt.err == "" && err != nil || tt.err != "" &&
			(err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
		}
		if b, err := r.Export("h", ContentConfig); err != nil || string(b) != good {
			t.Errorf("%s: afterwards the configuration is %q, %v", tt.name, b, err)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(r.ProgramDir, "*")); len(files) != 1 {
		t.Errorf("copies: %v, want that of the good one", files)
	}
	if left, _ := filepath.Glob(filepath.Join(r.ProgramDir, ".*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// The configuration is kept if nobody can tell.
func TestImportKeepsUncheckedConfig(t *testing.T) {
	r := registryOf(t)
	const bad = "colour = \"red\"\n"
	for name, program := range map[string]string{"exits": "exit-at-start", "another version": "wrong-version"} {
		register(t, r, "h", program, "")
		if err := r.Import("h", ContentConfig, strings.NewReader(bad)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	register(t, r, "h", "misbehave", "", "event=execjob_prologue", "user=pbsuser")
	if err := r.Import("h", ContentConfig, strings.NewReader(bad)); err != nil {
		t.Errorf("a program that is not to run as root: %v", err)
	}
	if err := r.Create("empty"); err != nil {
		t.Fatal(err)
	}
	if err := r.Import("empty", ContentConfig, strings.NewReader(bad)); err != nil {
		t.Errorf("no program yet: %v", err)
	}
	if err := r.Create("script"); err != nil {
		t.Fatal(err)
	}
	if err := r.Import("script", ContentProgram, strings.NewReader("#!/bin/sh\nexit 0\n")); err != nil {
		t.Fatal(err)
	}
	if err := r.Import("script", ContentConfig, strings.NewReader(bad)); err != nil {
		t.Errorf("no hook at all: %v", err)
	}
}

// The program that was started for the check sees no event, and it is gone when Import returns.
func TestImportLeavesNoProgram(t *testing.T) {
	r := registryOf(t)
	log := filepath.Join(filepath.Dir(r.Dir), "log")
	register(t, r, "h", "misbehave", "")
	if err := r.Import("h", ContentConfig,
		strings.NewReader("log = \""+log+"\"\nevent = \""+string(hostapi.EventStartup)+"\"\n")); err != nil {
		t.Fatal(err)
	}
	if calls := plugintest.Lines(t, log); len(calls) != 0 {
		t.Errorf("calls %v", calls)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left := childrenOf(t, os.Getpid(), "misbehave")
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("programs left: %v", left)
		}
	}
}

// childrenOf returns the pids of pid's children that are called name.
func childrenOf(t *testing.T, pid int, name string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, _ := os.ReadFile(f)
		comm, rest, ok := strings.Cut(string(b), ") ")
		fields := strings.Fields(rest)
		if ok && strings.HasSuffix(comm, "("+name) && len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			pids = append(pids, strings.Split(f, "/")[2])
		}
	}
	return pids
}
