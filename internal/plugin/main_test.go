package plugin

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

func TestMain(m *testing.M) {
	status := m.Run()
	plugintest.RemovePrograms()
	os.Exit(status)
}

// registryOf returns an empty registry in a directory with a short name: a socket's path has a
// limit.
func registryOf(t *testing.T) *Registry {
	t.Helper()
	dir, err := os.MkdirTemp("", "hh-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &Registry{
		Dir: filepath.Join(dir, "hooks.d"), ProgramDir: filepath.Join(dir, "programs"), AllowUnsafePaths: true,
	}
}

// register registers misbehave, or the program of its that is named. Assignments are those of Set.
func register(t *testing.T, r *Registry, name, program, config string, assignments ...string) {
	t.Helper()
	plugintest.Register(t, r.Dir, name, program, config)
	if len(assignments) == 0 {
		return
	}
	if err := r.Set(name, assignments...); err != nil {
		t.Fatal(err)
	}
}

// deafHost accepts each program and does not hear what it says.
type deafHost struct{}

func (deafHost) Startup(context.Context, *Plugin, *Candidate) string { return "" }

func (deafHost) Called(string, *hostapi.Outcome, error, time.Duration) {}

// optionsOf returns options with a host that accepts each program.
func optionsOf(t *testing.T, r *Registry) Options {
	return Options{
		Registry: r, RuntimeDir: filepath.Join(filepath.Dir(r.Dir), "run"), StartTimeout: time.Minute,
		Log: plugintest.NewLog(t).Entry(), Host: deafHost{},
	}
}

// launch returns a hook that is started for an event. The test hears nothing of what it says.
func launch(t *testing.T, r *Registry, name string) *Plugin {
	t.Helper()
	o := optionsOf(t, r)
	l, err := newLauncher(r, o.RuntimeDir, o.StartTimeout, o.Log)
	if err != nil {
		t.Fatal(err)
	}
	h, err := r.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	p := supervise(t.Context(), l, o.Host, h, nil)
	t.Cleanup(func() {
		p.retire(context.Background())
		if err := l.close(); err != nil {
			t.Error(err)
		}
	})
	return p
}
