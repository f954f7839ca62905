package systemd

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]int{`"252.39-1~deb12u1"`: 252, "v257": 257, "systemd 239 (239-82.el8)": 239,
		"247": 247} {
		if got, err := parseVersion(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	if got, err := parseVersion(`"unknown"`); err == nil {
		t.Errorf("no number is read as %d", got)
	}
}

func TestWantedDependsOnModeAndSystemd(t *testing.T) {
	with, without := t.TempDir(), t.TempDir()
	must.NoError(t, os.MkdirAll(filepath.Join(with, "systemd/system"), 0o755))
	for _, tt := range []struct {
		mode, run string
		want      bool
		err       string
	}{
		{"auto", with, true, ""}, {"auto", without, false, ""}, {"require", with, true, ""},
		{"require", without, false, "systemd is not the first process of this node"}, {"off", with, false, ""},
		{"off", without, false, ""},
	} {
		got, err := New(tt.run, time.Second).Wanted(tt.mode)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %t, %v, want %t, %q", tt.mode, got, err, tt.want, tt.err)
		}
	}
}

func TestActiveIsReadFromTheLink(t *testing.T) {
	run := t.TempDir()
	must.NoError(t, os.MkdirAll(filepath.Join(run, "systemd/units"), 0o755))
	s := New(run, time.Second)
	if s.Active("pbs_jobs.service") {
		t.Error("active without a link")
	}
	must.NoError(t, os.Symlink("0123456789abcdef0123456789abcdef",
		filepath.Join(run, "systemd/units/invocation:pbs_jobs.service")))
	if !s.Active("pbs_jobs.service") {
		t.Error("not active with its link")
	}
}

// A systemd that hangs costs the timeout, not a begin that never ends.
func TestHangingSystemdCostsTheTimeout(t *testing.T) {
	run := t.TempDir()
	must.NoError(t, os.MkdirAll(filepath.Join(run, "systemd"), 0o755))
	l, err := net.Listen("unix", filepath.Join(run, "systemd/private"))
	must.NoError(t, err)
	defer l.Close()
	began := time.Now()
	err = New(run, 100*time.Millisecond).Ensure(t.Context(), "pbs_jobs.service")
	if err == nil || err.Error() != "systemd: start pbs_jobs.service: no answer within 100ms" {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A systemd that is re-executed drops its connections: the call is made again, and says in the end
// what it met.
func TestLostConnection(t *testing.T) {
	run := t.TempDir()
	must.NoError(t, os.MkdirAll(filepath.Join(run, "systemd"), 0o755))
	l, err := net.Listen("unix", filepath.Join(run, "systemd/private"))
	must.NoError(t, err)
	defer l.Close()
	connections := make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
			connections <- struct{}{}
		}
	}()
	err = New(run, 3*time.Second).Ensure(t.Context(), "pbs_jobs.service")
	if err == nil || !strings.HasPrefix(err.Error(), "systemd: start pbs_jobs.service: no answer within 3s") {
		t.Errorf("got %v", err)
	}
	if len(connections) < 2 {
		t.Errorf("%d connections, want several", len(connections))
	}
}
