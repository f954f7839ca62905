// Package plugintest has helpers for the tests of the host and of its programs: the hooks deny and
// misbehave, their registration, a log.
package plugintest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

var built string // made by Programs, to remove at the end

// Programs returns the directory with the hooks deny and misbehave, which the first call builds.
// misbehave is there under several names, one for each fault at its start. RemovePrograms removes
// the directory.
var Programs = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "hhtest-hooks-")
	if err != nil {
		panic(err)
	}
	built = dir
	const module = "github.com/hookhost/hookhost/"
	build := exec.Command("go", "build", "-o", dir+"/", module+"hostapi/examples/deny",
		module+"testdata/hooks/misbehave")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("build hooks: %v\n%s", err, out))
	}
	modes := []string{
		"print-early", "wrong-version", "exit-at-start", "slow-start", "nonsense", "misspelt", "no-events",
		"no-lifeline",
	}
	for _, mode := range modes {
		if err := os.Link(filepath.Join(dir, "misbehave"), filepath.Join(dir, mode)); err != nil {
			panic(err)
		}
	}
	return dir
})

// RemovePrograms removes what Programs built. TestMain calls it at the end.
func RemovePrograms() {
	if built != "" {
		os.RemoveAll(built)
	}
}

var sums sync.Map // checksum by program

// Register writes the file of a hook to hooks.d: a program of Programs, with config as its
// configuration in a file beside dir. It replaces an existing file.
func Register(t testing.TB, dir, name, program, config string) {
	t.Helper()
	path := filepath.Join(Programs(), program)
	if _, known := sums.Load(program); !known {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			t.Fatal(err)
		}
		sums.Store(program, fmt.Sprintf("%x", h.Sum(nil)))
	}
	checksum, _ := sums.Load(program)
	created := time.Now().UTC().Format(time.RFC3339Nano)
	text := fmt.Sprintf("program = %q\nsha256 = %q\ncreated = %s\n", path, checksum, created)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if config != "" {
		file := filepath.Join(filepath.Dir(dir), name+".config")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		text += "config = " + strconv.Quote(file) + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Lines returns the lines of a file, such as the one in which misbehave records its calls. A
// missing file has none.
func Lines(t testing.TB, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' })
}

// Children returns the pids of this process's children.
func Children(t testing.TB) []string {
	t.Helper()
	var pids []string
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		b, _ := os.ReadFile(task) // a thread may be gone
		pids = append(pids, strings.Fields(string(b))...)
	}
	return pids
}

// Eventually waits until ok is true, for example for an effect of another process.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: still not so after a minute", what)
		}
	}
}

// Log is a log in memory: JSON, one entry per line. The zero value is empty.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// NewLog returns a log that the test shows if it fails.
func NewLog(t testing.TB) *Log {
	l := &Log{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the host:\n%s", l)
		}
	})
	return l
}

// Entry returns a logger of all levels.
func (l *Log) Entry() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(l)
	log.SetLevel(logrus.DebugLevel)
	log.SetFormatter(&logrus.JSONFormatter{DisableTimestamp: true})
	return logrus.NewEntry(log)
}

// Write adds to the log.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Find returns the first entry whose message contains text, or nil.
func (l *Log) Find(text string) map[string]any {
	for line := range strings.Lines(l.String()) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && strings.Contains(fmt.Sprint(entry["msg"]), text) {
			return entry
		}
	}
	return nil
}
