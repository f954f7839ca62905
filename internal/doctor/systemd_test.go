package doctor

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestUnitOfTheJobsIsExamined(t *testing.T) {
	base := unit{mode: "auto", name: "pbs_jobs.service", running: true, version: 252,
		active: true, made: true, delegated: true}
	for _, tt := range []struct {
		name   string
		edit   func(*unit)
		status []Status
		text   string
		blocks bool
	}{
		{"as it should be", func(*unit) {}, []Status{"ok", "ok"}, "active and delegated", false},
		{"not there", func(u *unit) { u.running = false }, []Status{"ok"}, "plain directories", false},
		{"required", func(u *unit) { u.running, u.mode = false, "require" }, []Status{"impossible"},
			`systemd = "require"`, true},
		{"off", func(u *unit) { u.mode = "off" }, []Status{"degraded"}, "daemon-reload", false},
		{"silent", func(u *unit) { u.err = errors.New("no answer within 10s") }, []Status{"impossible"}, "no answer",
			true},
		{"old", func(u *unit) { u.version = 219 }, []Status{"degraded", "ok"}, "219", false},
		{"no unit yet", func(u *unit) { u.active, u.made, u.delegated = false, false, false },
			[]Status{"ok", "ok"}, "is created when", false},
		{"made by hand", func(u *unit) { u.active = false }, []Status{"ok", "degraded"}, "not active", false},
		{"without Delegate", func(u *unit) { u.delegated = false }, []Status{"ok", "impossible"}, "Delegate=yes", true},
	} {
		u := base
		tt.edit(&u)
		var status []Status
		text, blocks := "", false
		for _, f := range u.examine() {
			status, text, blocks = append(status, f.Status), text+f.Found+" ", blocks || f.Blocks
		}
		if !slices.Equal(status, tt.status) || !strings.Contains(text, tt.text) || blocks != tt.blocks {
			t.Errorf("%s: %v, %q, blocks %t", tt.name, status, text, blocks)
		}
	}
}
