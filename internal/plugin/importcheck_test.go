package plugin

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
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
	if err := r.Create("empty"); err != nil {
		t.Fatal(err)
	}
	if err := r.Import("empty", ContentConfig, strings.NewReader(bad)); err != nil {
		t.Errorf("no program yet: %v", err)
	}
}

// A program that does not shake hands is refused when it is imported, and not with each job. The
// program of before stays.
func TestImportRefusesWhatIsNoHook(t *testing.T) {
	defer func(limit time.Duration) { checkLimit = limit }(checkLimit)
	for name, tt := range map[string]struct {
		program, err string
		limit        time.Duration
	}{
		"ls":               {program: "/bin/ls", err: "it does not start as a hook"},
		"true":             {program: "/bin/true", err: "it ended before it was ready: exit status 0"},
		"a script":         {program: "#!/bin/sh\nexit 3\n", err: "it ended before it was ready: exit status 3"},
		"no interpreter":   {program: "#!/no/such/shell\n", err: "no such file or directory"},
		"a broken file":    {program: "\x7fELF and no more", err: "exec format error"},
		"another protocol": {program: misbehaving("wrong-version"), err: "Plugin version: 99, Client versions: [1]"},
		"dies at once":     {program: misbehaving("exit-at-start"), err: "it ended before it was ready: exit status"},
		"hangs":            {program: "#!/bin/sh\nexec sleep 1000\n", err: "not ready after 1s", limit: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			checkLimit = cmp.Or(tt.limit, time.Minute)
			r := registryOf(t)
			must.NoError(t, r.Create("h"), importFile(r, filepath.Join(plugintest.Programs(), "deny")))
			before, err := r.Get("h")
			must.NoError(t, err)
			if strings.HasPrefix(tt.program, "/") {
				err = importFile(r, tt.program)
			} else {
				err = r.Import("h", ContentProgram, strings.NewReader(tt.program))
			}
			for _, want := range []string{"hook h: import application/x-executable: it does not start as a hook: ",
				tt.err} {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %v, want %q", err, want)
				}
			}
			after, err := r.Get("h")
			must.NoError(t, err)
			must.Equal(t, "the hook", before, after)
			files, err := os.ReadDir(r.ProgramDir)
			must.NoError(t, err)
			if len(files) != 1 {
				t.Errorf("left: %v", files)
			}
			must.Equal(t, "programs that run", []string(nil), plugintest.Children(t))
		})
	}
}

// A program that others can change is not started at all.
func TestImportStartsNoProgramOfOthersAsRoot(t *testing.T) {
	kernfstest.NeedRoot(t)
	for name, tt := range map[string]struct {
		err  string
		mode os.FileMode
	}{
		"root's":    {mode: 0o755, err: "it does not start as a hook"},
		"anybody's": {mode: 0o777, err: "lets others write to it"},
	} {
		t.Run(name, func(t *testing.T) {
			r := registryOf(t)
			r.AllowUnsafePaths = false
			must.NoError(t, r.Create("h"), os.Mkdir(r.ProgramDir, 0o755), os.Chmod(r.ProgramDir, tt.mode))
			err := r.Import("h", ContentProgram, strings.NewReader("#!/bin/sh\necho uid $(id -u)\n"))
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

// misbehaving is a program that does one thing wrong at its start.
func misbehaving(mode string) string {
	return "#!/bin/sh\nMISBEHAVE=" + mode + " exec " + filepath.Join(plugintest.Programs(), "misbehave") + "\n"
}

func importFile(r *Registry, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return r.Import("h", ContentProgram, f)
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
