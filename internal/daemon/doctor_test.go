package daemon

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/hookhost/hookhost/internal/must"
)

// The exit status of the daemon's own doctor is the node's state, if it read what is in force.
func TestStateOfTheNodeIsTheExitStatusOfDoctor(t *testing.T) {
	dir := t.TempDir()
	status := filepath.Join(dir, "status")
	log, _ := test.NewNullLogger()
	inForce := make(chan bool)
	d := newDoctor([]string{"/bin/sh", "-c", ". " + status}, func() bool { return <-inForce }, logrus.NewEntry(log))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	for _, tt := range []struct {
		name, script string
		inForce      bool
		want         string
	}{
		{"a file that waits for a reload", "exit 1", false, "unknown"},
		{"no complaint", "exit 0", true, "ok"},
		{"a complaint about a file that waits", "exit 1", false, "ok"},
		{"a complaint", "exit 1", true, "degraded"},
		{"repaired", "exit 0", true, "ok"},
		{"it crashes", "exit 2", true, "degraded"},
	} {
		must.NoError(t, os.WriteFile(status, []byte(tt.script), 0o600))
		d.Examine()
		inForce <- tt.inForce
		d.Examine() // run takes the next one when it has noted this one
		inForce <- tt.inForce
		got := "unknown"
		if ok := d.lastOK(); ok != nil {
			got = map[bool]string{true: "ok", false: "degraded"}[*ok]
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// What is known of a host that hookhost leaves alone does not depend on doctor.
func TestStateOfThisHostIsWhatDoctorFound(t *testing.T) {
	log, _ := test.NewNullLogger()
	d := newDoctor(nil, nil, logrus.NewEntry(log))
	want := func(what string, enabled bool, want string, wantKnown bool) {
		t.Helper()
		if got, known := d.state(enabled); got != want || known != wantKnown {
			t.Errorf("%s: state %q, known %t, want %q, %t", what, got, known, want, wantKnown)
		}
	}
	want("not examined yet", true, "", false)
	want("left alone", false, "", true)
	d.note(verdict{ok: true})
	want("examined", true, "ok", true)
	d.Examine() // requests may come faster than results
	d.note(verdict{ok: false})
	want("examined again", true, "degraded", true)
	want("left alone now", false, "", true)

	d.configured()
	want("with a new configuration", true, "", false)
	d.note(verdict{ok: true}) // an examination that began before
	want("with a new configuration still", true, "", false)
	d.note(verdict{ok: true, config: 1})
	want("with a new configuration, examined", true, "ok", true)
}

func TestNodeIsExaminedUntilEveryHookCanWork(t *testing.T) {
	log, _ := test.NewNullLogger()
	d := newDoctor(nil, nil, logrus.NewEntry(log))
	examinations := func() (n int) {
		for ; len(d.wanted) > 0; n++ {
			<-d.wanted
		}
		return n
	}
	for _, tt := range []struct {
		what string
		do   func()
		want int
	}{
		{"nothing known", func() {}, 1},
		{"degraded", func() { d.note(verdict{ok: false}) }, 1},
		{"repaired", func() { d.note(verdict{ok: true}) }, 0},
		{"with a new configuration, whose result did not count", func() { d.configured(); examinations() }, 1},
		{"examined with it", func() { d.note(verdict{ok: true, config: 1}) }, 0},
	} {
		tt.do()
		d.retry()
		must.Equal(t, tt.what, tt.want, examinations())
	}
}
