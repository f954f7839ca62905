package daemon

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/must"
)

// The exit status of the daemon's own doctor is the node's state, if it read what is in force.
func TestStateOfTheNodeIsTheExitStatusOfDoctor(t *testing.T) {
	dir := t.TempDir()
	status := filepath.Join(dir, "status")
	log := logrus.New()
	log.SetOutput(io.Discard)
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
